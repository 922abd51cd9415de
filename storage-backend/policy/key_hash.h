// Spreads keys over tables: every bit of the key reaches every bit of the hash.
#pragma once

#include <cstdint>

namespace ebb::storage {

// splitmix64's finaliser.
inline uint64_t HashKey(uint64_t key) {
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

}  // namespace ebb::storage
