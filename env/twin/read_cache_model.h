// ReadCacheModel: the DRAM read cache without its memory, around the node's own eviction and
// admission policies.
//
// As storage-backend/volume/read_cache.h, but that it grows and shrinks at once. Which slot holds a
// block is in the BlockTable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "env/twin/block_table.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/policy/eviction_policy.h"
#include "storage-backend/policy/read_admission.h"

namespace ebb::twin {

class ReadCacheModel {
 public:
  static constexpr uint32_t kNoSlot = storage::kNoSlot;

  explicit ReadCacheModel(BlockTable& table);

  void SetPolicy(storage::ReadPolicy policy);
  void SetAdmission(storage::ReadAdmission admission) { admission_.SetKind(admission); }
  // `divisor`: the cache is that much smaller than the knob says.
  void SetTargetBytes(uint64_t bytes, double divisor);

  bool off() const { return slot_count_ == 0; }
  // The block of `state` is there and is used again.
  void Touch(BlockState& state, uint32_t block);
  bool Admits(uint32_t block, storage::ReadAdmissionPolicy::ReadFrom from) {
    if (slot_count_ == 0) return false;
    return admission_.Admit(block, from,
                            admission_.ComparesVictims() ? VictimBlock() : std::nullopt);
  }
  // A slot to fill, or kNoSlot.
  uint32_t Allocate();
  void Publish(uint32_t slot, uint32_t block);
  void Discard(uint32_t slot);
  // The block changed.
  void Erase(BlockState& state) {
    if (SlotOf(state) != 0) EraseSlot(SlotOf(state) - 1);
  }
  uint64_t used_blocks() const { return used_; }

 private:
  enum State : uint8_t { kFree, kAllocated, kUsed, kUsedOldPolicy };
  struct Slot {
    uint32_t block = 0;
    State state = kFree;
  };

  storage::EvictionPolicy& PolicyOf(const Slot& slot) {
    return slot.state == kUsedOldPolicy ? *old_policy_ : *policy_;
  }
  std::optional<uint64_t> VictimBlock();
  void EraseSlot(uint32_t slot);
  void Unmap(uint32_t slot);  // the policy has forgotten it
  void ForgetOldPolicy() {
    if (old_policy_ != nullptr && old_policy_->size() == 0) old_policy_ = nullptr;
  }

  BlockTable& table_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t slot_count_ = 0;
  uint64_t used_ = 0;
  storage::ReadPolicy policy_kind_ = storage::ReadPolicy::kS3Fifo;
  std::unique_ptr<storage::EvictionPolicy> policy_;
  std::unique_ptr<storage::EvictionPolicy> old_policy_;
  storage::ReadAdmissionPolicy admission_;
};

}  // namespace ebb::twin
