// What fuzz targets share: inputs as byte ranges, and checksums put right.
//
// Every record ends in a checksum that no fuzzer guesses; so half of the inputs get a right one, or
// nothing behind the checksum would ever be reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/crc32c.h"

namespace ebb::fuzz {

using Bytes = std::span<const std::byte>;

inline Bytes AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// Takes the first byte off `input`: what the target chooses by.
inline uint8_t TakeByte(Bytes& input) {
  if (input.empty()) return 0;
  const auto first = static_cast<uint8_t>(input[0]);
  input = input.subspan(1);
  return first;
}

inline std::string ToString(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void StoreCrc(std::byte* to, uint32_t crc) { std::memcpy(to, &crc, sizeof crc); }

// A decoder that accepts must make sense of what it accepted.
inline void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace ebb::fuzz

// Defined once in each target.
namespace ebb::fuzz {
void Run(Bytes input);
}

extern "C" inline __attribute__((used)) int LLVMFuzzerTestOneInput(const uint8_t* data,
                                                                   size_t size) {
  ebb::fuzz::Run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
