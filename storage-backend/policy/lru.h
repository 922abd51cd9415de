// LruPolicy evicts what was used longest ago.
//
// The yardstick: best for recency, helpless against a scan longer than the cache. A touch moves a
// list node, three random memory accesses.
#pragma once

#include "storage-backend/policy/eviction_policy.h"
#include "storage-backend/policy/slot_queue.h"

namespace ebb::storage {

class LruPolicy final : public EvictionPolicy {
 public:
  LruPolicy() : queue_(links_) {}
  void Resize(uint32_t slot_count) override { links_.resize(slot_count); }
  void Insert(uint32_t slot, uint64_t key) override;
  void Touch(uint32_t slot) override;
  void Erase(uint32_t slot) override { queue_.Remove(slot); }
  uint32_t Victim() override { return queue_.back(); }
  uint32_t Evict() override;
  size_t size() const override { return queue_.size(); }

 private:
  SlotQueue::Links links_;
  SlotQueue queue_;
};

}  // namespace ebb::storage
