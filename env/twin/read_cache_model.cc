#include "env/twin/read_cache_model.h"

#include <algorithm>

#include "base/units.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kChunkSlots = 256;

std::unique_ptr<storage::EvictionPolicy> MakePolicy(storage::ReadPolicy policy) {
  return policy == storage::ReadPolicy::kLru ? storage::MakeLruPolicy()
                                             : storage::MakeS3FifoPolicy();
}

}  // namespace

ReadCacheModel::ReadCacheModel(BlockTable& table)
    : table_(table), policy_(MakePolicy(policy_kind_)) {}

void ReadCacheModel::SetPolicy(storage::ReadPolicy policy) {
  if (policy == policy_kind_) return;
  policy_kind_ = policy;
  if (old_policy_ != nullptr) {
    for (uint32_t slot = old_policy_->Evict(); slot != kNoSlot; slot = old_policy_->Evict()) {
      Unmap(slot);
    }
  }
  old_policy_ = std::move(policy_);
  ForgetOldPolicy();
  policy_ = MakePolicy(policy);
  for (Slot& slot : slots_) {
    if (slot.state == kUsed) slot.state = kUsedOldPolicy;
  }
  policy_->Resize(slot_count_);
  admission_.Resize(slot_count_);
}

void ReadCacheModel::SetTargetBytes(uint64_t bytes, double divisor) {
  const uint64_t chunks = (bytes + kMiB - 1) / kMiB;
  const auto count =
      static_cast<uint32_t>(static_cast<double>(chunks * kChunkSlots) / divisor + 0.5);
  if (count == slot_count_) return;
  for (uint32_t slot = count; slot < slot_count_; ++slot) {
    if (slots_[slot].state == kUsed || slots_[slot].state == kUsedOldPolicy) EraseSlot(slot);
  }
  std::erase_if(free_, [count](uint32_t slot) { return slot >= count; });
  if (slots_.size() < count) slots_.resize(count);
  for (uint32_t slot = count; slot > slot_count_; --slot) {
    // One that is still being filled comes back when it is.
    if (slots_[slot - 1].state == kFree) free_.push_back(slot - 1);
  }
  slot_count_ = count;
  policy_->Resize(count);
  if (old_policy_ != nullptr) old_policy_->Resize(count);
  admission_.Resize(count);
}

void ReadCacheModel::Touch(BlockState& state, uint32_t block) {
  const uint32_t slot = SlotOf(state) - 1;
  admission_.OnHit(block);
  if (slots_[slot].state == kUsedOldPolicy) {
    // In use: from now on the new policy's.
    old_policy_->Erase(slot);
    slots_[slot].state = kUsed;
    policy_->Insert(slot, block);
    ForgetOldPolicy();
  } else {
    policy_->Touch(slot);
  }
}

std::optional<uint64_t> ReadCacheModel::VictimBlock() {
  if (!free_.empty()) return std::nullopt;
  const uint32_t victim = old_policy_ != nullptr ? old_policy_->Victim() : policy_->Victim();
  if (victim == kNoSlot) return std::nullopt;
  return slots_[victim].block;
}

void ReadCacheModel::Unmap(uint32_t slot) {
  table_[slots_[slot].block].dram &= kZeroed;
  slots_[slot].state = kFree;
  --used_;
  if (slot < slot_count_) free_.push_back(slot);
}

void ReadCacheModel::EraseSlot(uint32_t slot) {
  PolicyOf(slots_[slot]).Erase(slot);
  Unmap(slot);
}

uint32_t ReadCacheModel::Allocate() {
  while (free_.empty()) {
    const bool old = old_policy_ != nullptr;
    const uint32_t victim = old ? old_policy_->Evict() : policy_->Evict();
    ForgetOldPolicy();
    if (victim != kNoSlot) {
      Unmap(victim);
    } else if (!old) {
      return kNoSlot;
    }
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot].state = kAllocated;
  return slot;
}

void ReadCacheModel::Publish(uint32_t slot, uint32_t block) {
  if (slot >= slot_count_) {
    slots_[slot].state = kFree;
    return;
  }
  BlockState& state = table_[block];
  Erase(state);
  slots_[slot] = {.block = block, .state = kUsed};
  state.dram = (state.dram & kZeroed) | (slot + 1);
  ++used_;
  policy_->Insert(slot, block);
}

void ReadCacheModel::Discard(uint32_t slot) {
  slots_[slot].state = kFree;
  if (slot < slot_count_) free_.push_back(slot);
}

}  // namespace ebb::twin
