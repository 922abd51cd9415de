// SlotQueue is a doubly linked list over slot numbers: two 32-bit links a slot, no allocation a
// step.
//
// Several queues may share one Links, as long as a slot is in at most one of them at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage-backend/policy/eviction_policy.h"

namespace ebb::storage {

class SlotQueue {
 public:
  struct Link {
    uint32_t previous = kNoSlot;
    uint32_t next = kNoSlot;
  };
  using Links = std::vector<Link>;

  explicit SlotQueue(Links& links) : links_(links) {}

  void PushFront(uint32_t slot);
  void Remove(uint32_t slot);
  // The slot pushed longest ago, or kNoSlot; it stays in the queue.
  uint32_t back() const { return back_; }
  size_t size() const { return size_; }

 private:
  Links& links_;
  uint32_t front_ = kNoSlot;
  uint32_t back_ = kNoSlot;
  size_t size_ = 0;
};

}  // namespace ebb::storage
