#include "storage-backend/policy/lru.h"

namespace ebb::storage {

void LruPolicy::Insert(uint32_t slot, uint64_t /*key*/) { queue_.PushFront(slot); }

void LruPolicy::Touch(uint32_t slot) {
  queue_.Remove(slot);
  queue_.PushFront(slot);
}

uint32_t LruPolicy::Evict() {
  const uint32_t slot = queue_.back();
  if (slot != kNoSlot) queue_.Remove(slot);
  return slot;
}

std::unique_ptr<EvictionPolicy> MakeLruPolicy() { return std::make_unique<LruPolicy>(); }

}  // namespace ebb::storage
