// Fixed fields of little-endian binary records.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace ebb::env {

static_assert(std::endian::native == std::endian::little);

// The T at `offset` of `bytes`, which reach that far.
template <typename T>
T LoadLittle(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace ebb::env
