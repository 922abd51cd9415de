// KeyCache: a cache without payload, what an eviction policy and an admission need around them to
// be judged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "storage-backend/policy/eviction_policy.h"
#include "storage-backend/policy/read_admission.h"

namespace ebb::storage {

class KeyCache {
 public:
  // Every miss is a read from the capacity tier; kAlways admits them all.
  KeyCache(std::unique_ptr<EvictionPolicy> policy, uint32_t slot_count,
           ReadAdmission admission = ReadAdmission::kAlways)
      : policy_(std::move(policy)), keys_(slot_count) {
    admission_.SetKind(admission);
    admission_.Resize(slot_count);
    policy_->Resize(slot_count);
    for (uint32_t slot = slot_count; slot > 0; --slot) free_.push_back(slot - 1);
  }

  // Whether it was there; afterwards it is, if it was admitted.
  bool Get(uint64_t key) {
    if (const auto found = slots_.find(key); found != slots_.end()) {
      admission_.OnHit(key);
      policy_->Touch(found->second);
      return true;
    }
    std::optional<uint64_t> victim;
    if (free_.empty()) victim = keys_[policy_->Victim()];
    if (!admission_.Admit(key, ReadAdmissionPolicy::ReadFrom::kCapacity, victim)) return false;
    if (free_.empty()) MakeRoom(*victim);
    const uint32_t slot = free_.back();
    free_.pop_back();
    keys_[slot] = key;
    slots_[key] = slot;
    policy_->Insert(slot, key);
    return false;
  }

  void Drop(uint64_t key) {
    const auto found = slots_.find(key);
    if (found == slots_.end()) return;
    policy_->Erase(found->second);
    free_.push_back(found->second);
    slots_.erase(found);
  }

  bool Holds(uint64_t key) const { return slots_.contains(key); }
  size_t size() const { return slots_.size(); }
  EvictionPolicy& policy() { return *policy_; }

 private:
  void MakeRoom(uint64_t victim) {
    const uint32_t slot = policy_->Evict();
    ASSERT_NE(slot, kNoSlot);
    EXPECT_EQ(keys_[slot], victim);  // the policy keeps its word
    slots_.erase(keys_[slot]);
    free_.push_back(slot);
  }

  std::unique_ptr<EvictionPolicy> policy_;
  ReadAdmissionPolicy admission_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> free_;
  std::unordered_map<uint64_t, uint32_t> slots_;
};

}  // namespace ebb::storage
