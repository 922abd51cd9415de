#include "storage-backend/log/block_index.h"

#include "base/check.h"

namespace ebb::storage {

BlockIndex::BlockIndex(size_t entries_max)
    : memory_((entries_max + entries_max / 3 + 8) * sizeof(Slot)),
      slots_(reinterpret_cast<Slot*>(memory_.data())),
      slot_count_(memory_.size() / sizeof(Slot)),
      entries_max_(entries_max) {}

uint32_t BlockIndex::Put(uint32_t key, uint32_t value) {
  EBB_CHECK(value != 0);
  size_t i = Home(key);
  while (slots_[i].value != 0 && slots_[i].key != key) i = Next(i);
  const uint32_t before = slots_[i].value;
  if (before == 0) {
    EBB_CHECK(size_ < entries_max_);
    ++size_;
  }
  slots_[i] = {.key = key, .value = value};
  return before;
}

bool BlockIndex::Erase(uint32_t key) {
  size_t hole = Home(key);
  while (slots_[hole].key != key || slots_[hole].value == 0) {
    if (slots_[hole].value == 0) return false;
    hole = Next(hole);
  }
  // Moves back every entry behind the hole that may live there: whose home is not after it.
  for (size_t i = Next(hole); slots_[i].value != 0; i = Next(i)) {
    const size_t home = Home(slots_[i].key);
    const bool stays = hole <= i ? (hole < home && home <= i) : (hole < home || home <= i);
    if (stays) continue;
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole].value = 0;
  --size_;
  return true;
}

}  // namespace ebb::storage
