// The numbers inside the history's keys: big endian, so that keys sort as the numbers do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::engine {

inline std::string BigEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 8; i-- > 0; value >>= 8) bytes[i] = static_cast<char>(value);
  return bytes;
}

// Of the first eight bytes.
inline uint64_t FromBigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes.substr(0, 8)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

// Times before 1970 do not occur; they would sort as 1970.
inline std::string TimeKey(int64_t wall_ms) {
  return BigEndian(static_cast<uint64_t>(std::max<int64_t>(0, wall_ms)));
}

}  // namespace ebb::engine
