#include "storage-backend/volume/read_cache.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::storage {
namespace {

std::unique_ptr<EvictionPolicy> MakePolicy(ReadPolicy policy) {
  return policy == ReadPolicy::kLru ? MakeLruPolicy() : MakeS3FifoPolicy();
}

}  // namespace

ReadCache::ReadCache() : policy_(MakePolicy(policy_kind_)) {}

void ReadCache::SetPolicy(ReadPolicy policy) {
  if (policy == policy_kind_) return;
  policy_kind_ = policy;
  if (old_policy_ != nullptr) {
    // A second change before the first has run its course: what the oldest knows is given up.
    for (uint32_t number = old_policy_->Evict(); number != kNoSlot; number = old_policy_->Evict()) {
      Slot* slot = At(number);
      Unmap(slot);
      Release(slot);
    }
  }
  old_policy_ = std::move(policy_);
  if (old_policy_->size() == 0) old_policy_ = nullptr;
  policy_ = MakePolicy(policy);
  for (const auto& chunk : chunks_) {
    for (Slot& slot : chunk->slots) slot.old_policy = slot.used;
  }
  ResizePolicies();
}

void ReadCache::SetTargetBytes(uint64_t bytes) {
  const uint64_t chunks = (bytes + kChunkSlots * kSlotBytes - 1) / (kChunkSlots * kSlotBytes);
  // Resizing makes policies forget what they saw: not at every change of some other knob.
  if (chunks == target_chunks_) return;
  target_chunks_ = chunks;
  ResizePolicies();
}

void ReadCache::ResizePolicies() {
  // Shrinking waits until no slot above is known.
  const auto slots = static_cast<uint32_t>(std::max(target_chunks_, chunks_.size()) * kChunkSlots);
  policy_->Resize(slots);
  if (old_policy_ != nullptr) old_policy_->Resize(slots);
  admission_.Resize(slots);
}

void ReadCache::AddChunk(std::unique_ptr<Chunk> chunk) {
  const auto first = static_cast<uint32_t>(chunks_.size() * kChunkSlots);
  for (uint32_t i = kChunkSlots; i > 0; --i) {
    Slot& slot = chunk->slots[i - 1];
    slot.number = first + i - 1;
    slot.data = chunk->memory.data() + (i - 1) * kSlotBytes;
    free_.push_back(&slot);
  }
  chunks_.push_back(std::move(chunk));
}

std::vector<std::unique_ptr<ReadCache::Chunk>> ReadCache::RemoveChunk() {
  if (chunks_.size() > target_chunks_) {
    const auto first = static_cast<uint32_t>((chunks_.size() - 1) * kChunkSlots);
    const auto in_chunk = [first](const Slot* slot) { return slot->number >= first; };
    std::erase_if(free_, in_chunk);
    std::erase_if(pinned_free_, in_chunk);
    for (Slot& slot : chunks_.back()->slots) {
      if (slot.used) {
        PolicyOf(slot).Erase(slot.number);
        Unmap(&slot);
      }
      slot.retired = true;
    }
    retired_.push_back(std::move(chunks_.back()));
    chunks_.pop_back();
    if (chunks_.size() == target_chunks_) ResizePolicies();
  }
  std::vector<std::unique_ptr<Chunk>> unused;
  for (std::unique_ptr<Chunk>& chunk : retired_) {
    const bool pinned = std::any_of(chunk->slots.begin(), chunk->slots.end(), [](const Slot& s) {
      return s.pins.load(std::memory_order_acquire) != 0;
    });
    if (!pinned) unused.push_back(std::move(chunk));
  }
  std::erase(retired_, nullptr);
  return unused;
}

ReadCache::Slot* ReadCache::FindAndPin(uint64_t block) {
  const Shard& shard = ShardOf(block);
  const auto found = shard.find(block);
  if (found == shard.end()) return nullptr;
  Slot* slot = found->second;
  slot->pins.fetch_add(1, std::memory_order_relaxed);
  admission_.OnHit(block);
  if (slot->old_policy) {
    // In use: from now on the new policy's.
    old_policy_->Erase(slot->number);
    slot->old_policy = false;
    policy_->Insert(slot->number, block);
    if (old_policy_->size() == 0) old_policy_ = nullptr;
  } else {
    policy_->Touch(slot->number);
  }
  return slot;
}

void ReadCache::Unmap(Slot* slot) {
  ShardOf(slot->block).erase(slot->block);
  slot->used = false;
  slot->old_policy = false;
  --used_;
}

void ReadCache::Release(Slot* slot) {
  if (slot->retired) return;
  const bool pinned = slot->pins.load(std::memory_order_acquire) != 0;
  (pinned ? pinned_free_ : free_).push_back(slot);
}

std::optional<uint64_t> ReadCache::VictimBlock() {
  if (!free_.empty() || !pinned_free_.empty()) return std::nullopt;
  const uint32_t victim = old_policy_ != nullptr ? old_policy_->Victim() : policy_->Victim();
  if (victim == kNoSlot) return std::nullopt;
  return At(victim)->block;
}

bool ReadCache::Admits(uint64_t block, ReadAdmissionPolicy::ReadFrom from) {
  if (chunks_.empty()) return false;
  return admission_.Admit(block, from, admission_.ComparesVictims() ? VictimBlock() : std::nullopt);
}

ReadCache::Slot* ReadCache::Allocate() {
  if (free_.empty() && !pinned_free_.empty()) {
    std::erase_if(pinned_free_, [&](Slot* slot) {
      if (slot->pins.load(std::memory_order_acquire) != 0) return false;
      free_.push_back(slot);
      return true;
    });
  }
  while (free_.empty()) {
    const bool old = old_policy_ != nullptr;
    const uint32_t victim = old ? old_policy_->Evict() : policy_->Evict();
    if (old && old_policy_->size() == 0) old_policy_ = nullptr;
    if (victim == kNoSlot) {
      if (old) continue;
      return nullptr;
    }
    Slot* slot = At(victim);
    Unmap(slot);
    Release(slot);  // not to the free ones when a reader is copying out of it: on to the next
  }
  Slot* slot = free_.back();
  free_.pop_back();
  slot->pins.store(1, std::memory_order_relaxed);
  return slot;
}

void ReadCache::Publish(Slot* slot, uint64_t block, uint32_t crc32c) {
  slot->Unpin();
  if (slot->retired) return;
  Erase(block, 1);
  slot->block = block;
  slot->crc32c = crc32c;
  slot->used = true;
  ShardOf(block)[block] = slot;
  ++used_;
  policy_->Insert(slot->number, block);
}

void ReadCache::Discard(Slot* slot) {
  slot->Unpin();
  Release(slot);
}

void ReadCache::Erase(uint64_t first, uint64_t count) {
  if (used_ == 0) return;
  const auto erase = [&](Slot* slot) {
    PolicyOf(*slot).Erase(slot->number);
    Unmap(slot);
    Release(slot);
  };
  if (count <= used_) {
    for (uint64_t block = first; block < first + count; ++block) {
      const Shard& shard = ShardOf(block);
      if (const auto found = shard.find(block); found != shard.end()) erase(found->second);
    }
    return;
  }
  for (const auto& chunk : chunks_) {
    for (Slot& slot : chunk->slots) {
      if (slot.used && slot.block >= first && slot.block - first < count) erase(&slot);
    }
  }
}

}  // namespace ebb::storage
