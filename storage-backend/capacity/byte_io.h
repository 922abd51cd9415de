// ByteWriter and ByteReader: numbers to bytes and back, for on-disk records. Little-endian.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace ebb::storage {

class ByteWriter {
 public:
  void Reserve(size_t bytes) { bytes_.reserve(bytes); }
  template <std::unsigned_integral Number>
  void Fixed(Number number) {
    std::array<char, sizeof(Number)> raw;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(raw.data(), &number, raw.size());
    } else {
      for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<char>(number >> (8 * i) & 0xff);
    }
    bytes_.append(raw.data(), raw.size());
  }
  // 7 bits a byte, lowest first; the top bit says that more follow.
  void Varint(uint64_t number) {
    while (number >= 0x80) {
      bytes_.push_back(static_cast<char>((number & 0x7f) | 0x80));
      number >>= 7;
    }
    bytes_.push_back(static_cast<char>(number));
  }
  void Bytes(std::string_view bytes) { bytes_ += bytes; }
  std::string_view bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reading past the end gives zeroes and makes ok() false for good.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <std::unsigned_integral Number>
  Number Fixed() {
    const std::string_view raw = Bytes(sizeof(Number));
    Number number = 0;
    for (size_t i = 0; i < raw.size(); ++i) {
      number = static_cast<Number>(number |
                                   (static_cast<Number>(static_cast<uint8_t>(raw[i])) << (8 * i)));
    }
    return number;
  }
  uint64_t Varint() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Fixed<uint8_t>();
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return number;
    }
    ok_ = false;
    return 0;
  }
  std::string_view Bytes(size_t count) {
    if (bytes_.size() < count) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  size_t left() const { return bytes_.size(); }
  bool ok() const { return ok_; }
  // Everything was read and nothing was missing.
  bool Done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace ebb::storage
