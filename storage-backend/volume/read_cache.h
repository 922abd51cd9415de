// ReadCache keeps blocks that were read lately in memory, touched in advance.
//
// Slots of 4 KiB in chunks of 1 MiB. It grows and shrinks a chunk at a time while clients go on; a
// change of policy takes effect for what is inserted or touched from then on, what the old policy
// still knows is evicted first. A hit is copied outside the lock while its slot is pinned; a slot
// is filled outside the lock too, between Allocate and Publish.
//
// The caller serialises (the volume uses the log's lock); a pinned or allocated Slot's data, crc32c
// and pins may be used without.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/aligned_buffer.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/policy/eviction_policy.h"
#include "storage-backend/policy/read_admission.h"

namespace ebb::storage {

class ReadCache {
 public:
  static constexpr size_t kSlotBytes = 4096;
  static constexpr uint32_t kChunkSlots = 256;

  struct Slot {
    std::byte* data = nullptr;
    uint32_t crc32c = 0;
    std::atomic<uint32_t> pins{0};
    // The cache's own:
    uint32_t number = 0;
    bool used = false;        // published
    bool old_policy = false;  // still known to the policy before the last change
    bool retired = false;     // its chunk was removed
    uint64_t block = 0;

    void Unpin() { pins.fetch_sub(1, std::memory_order_release); }
  };
  struct Chunk {
    Chunk() : memory(kChunkSlots * kSlotBytes) {}
    AlignedBuffer memory;
    std::array<Slot, kChunkSlots> slots;
  };

  ReadCache();

  void SetPolicy(ReadPolicy policy);
  void SetAdmission(ReadAdmission admission) { admission_.SetKind(admission); }

  // --- size ---
  void SetTargetBytes(uint64_t bytes);
  bool WantsToGrow() const { return chunks_.size() < target_chunks_; }
  bool WantsToShrink() const { return chunks_.size() > target_chunks_ || !retired_.empty(); }
  // `chunk` is made without the lock: touching its memory takes milliseconds.
  void AddChunk(std::unique_ptr<Chunk> chunk);
  // Evicts one chunk's blocks when too many are there, and returns the chunks that nobody uses any
  // more, to be freed without the lock.
  std::vector<std::unique_ptr<Chunk>> RemoveChunk();

  // --- blocks ---
  // The slot that holds `block`, pinned and touched; nullptr when there is none.
  Slot* FindAndPin(uint64_t block);
  bool Contains(uint64_t block) { return ShardOf(block).contains(block); }
  // Whether a block that missed should be kept.
  bool Admits(uint64_t block, ReadAdmissionPolicy::ReadFrom from);
  // A slot to fill; nullptr when the cache is off or every slot is in use.
  Slot* Allocate();
  // The allocated slot is filled and now holds `block`, replacing an older copy.
  void Publish(Slot* slot, uint64_t block, uint32_t crc32c);
  // The allocated slot was not filled.
  void Discard(Slot* slot);
  // [first, first + count) changed.
  void Erase(uint64_t first, uint64_t count);

  uint64_t used_bytes() const { return uint64_t{used_} * kSlotBytes; }
  bool off() const { return chunks_.empty(); }

 private:
  static constexpr size_t kShardCount = 64;
  using Shard = absl::flat_hash_map<uint64_t, Slot*>;

  Slot* At(uint32_t number) { return &chunks_[number / kChunkSlots]->slots[number % kChunkSlots]; }
  Shard& ShardOf(uint64_t block) { return shards_[block * 0x9e3779b97f4a7c15 >> 58]; }
  EvictionPolicy& PolicyOf(const Slot& slot) { return slot.old_policy ? *old_policy_ : *policy_; }
  // Takes a used slot out of the map; the policy has forgotten it already.
  void Unmap(Slot* slot);
  // Gives a slot without content back.
  void Release(Slot* slot);
  // The block that Allocate would take the slot of; nothing when there is a slot without one.
  std::optional<uint64_t> VictimBlock();
  void ResizePolicies();

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::unique_ptr<Chunk>> retired_;  // removed, slots still pinned
  size_t target_chunks_ = 0;
  std::vector<Slot*> free_;
  std::vector<Slot*> pinned_free_;  // without content, but a reader still copies out of them
  std::array<Shard, kShardCount> shards_;
  ReadPolicy policy_kind_ = ReadPolicy::kS3Fifo;
  std::unique_ptr<EvictionPolicy> policy_;
  std::unique_ptr<EvictionPolicy> old_policy_;  // until it knows no slot any more
  ReadAdmissionPolicy admission_;
  uint32_t used_ = 0;
};

}  // namespace ebb::storage
