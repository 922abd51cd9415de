// BlockIndex maps a volume block to a cache block: 8 bytes an entry at a load of at most 3/4.
//
// Open addressing with linear probing and backward-shift deletion, so there are no tombstones and a
// look-up is one cache line nearly always. Value 0 means "none" (cache block 0 is a superblock).
// Memory is touched at creation. The caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"

namespace ebb::storage {

class BlockIndex {
 public:
  // Holds up to `entries_max` entries.
  explicit BlockIndex(size_t entries_max);

  // The value of `key`, or 0.
  uint32_t Find(uint32_t key) const {
    for (size_t i = Home(key);; i = Next(i)) {
      const Slot slot = slots_[i];
      if (slot.value == 0 || slot.key == key) return slot.value;
    }
  }
  // Sets `key` to `value` (not 0) and returns what it was before, or 0.
  uint32_t Put(uint32_t key, uint32_t value);
  // Removes `key`; false when it was not there.
  bool Erase(uint32_t key);
  // Brings the entry's line near, to be used before work that takes longer than a cache miss.
  void Prefetch(uint32_t key) const { __builtin_prefetch(&slots_[Home(key)], 1); }

  size_t size() const { return size_; }
  size_t memory_bytes() const { return memory_.size(); }

 private:
  struct Slot {
    uint32_t key;
    uint32_t value;
  };
  static uint32_t Hash(uint32_t key) {
    key = (key ^ (key >> 16)) * 0x7feb352d;
    key = (key ^ (key >> 15)) * 0x846ca68b;
    return key ^ (key >> 16);
  }
  // Multiply-shift instead of modulo, so that the table need not be a power of two.
  size_t Home(uint32_t key) const { return (uint64_t{Hash(key)} * slot_count_) >> 32; }
  size_t Next(size_t i) const { return i + 1 == slot_count_ ? 0 : i + 1; }

  AlignedBuffer memory_;
  Slot* slots_;
  size_t slot_count_;
  size_t size_ = 0;
  size_t entries_max_;
};

}  // namespace ebb::storage
