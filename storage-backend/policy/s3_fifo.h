// S3FifoPolicy: three FIFO queues instead of a list in order of use (Yang et al., SOSP 2023).
//
// New content enters a small queue (a tenth of the cache). What is used more than once there moves
// to the main queue, the rest leaves and only its key is remembered; a key that comes back while
// remembered enters the main queue at once. So a scan passes through the small queue and leaves the
// main one alone. A touch is one byte.
//
//   insert -> [small 10 %] --used again--> [main 90 %, second chance] -> out
//                  |  not used             ^
//                  v                       |
//             [ghost: keys only] --inserted again
#pragma once

#include <vector>

#include "storage-backend/policy/eviction_policy.h"
#include "storage-backend/policy/ghost_table.h"
#include "storage-backend/policy/slot_queue.h"

namespace ebb::storage {

class S3FifoPolicy final : public EvictionPolicy {
 public:
  S3FifoPolicy() : small_(links_), main_(links_) {}
  void Resize(uint32_t slot_count) override;
  void Insert(uint32_t slot, uint64_t key) override;
  void Touch(uint32_t slot) override;
  void Erase(uint32_t slot) override;
  uint32_t Victim() override;
  uint32_t Evict() override;
  size_t size() const override { return small_.size() + main_.size(); }

 private:
  static constexpr uint8_t kUsesMax = 3;

  struct SlotState {
    uint64_t key = 0;
    uint8_t uses = 0;
    bool in_main = false;
  };
  // The oldest of the queue when it is to leave; else gives it its second chance in the main queue.
  uint32_t VictimOfSmall();
  uint32_t VictimOfMain();

  SlotQueue::Links links_;
  std::vector<SlotState> slots_;
  SlotQueue small_;
  SlotQueue main_;
  GhostTable ghosts_;
};

}  // namespace ebb::storage
