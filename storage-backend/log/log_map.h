// LogMap is what the cache log holds, in memory: which cache block has which volume block, which of
// them are dirty, and the segments in the order in which they were filled.
//
//   chain: [clean ... clean][not clean ... active]      free: [... ] -> next to be opened
//           ^ released first (FIFO)      ^ appended to
//
// A segment is clean when nothing in it is needed for recovery any more: no dirty block, no range
// entry that the capacity tier has not applied, and everything that superseded its dirty blocks is
// durable. Costs 8 bytes for the index at load 3/4, 8 for owner and checksum, 2 bits of state: 19
// bytes a cache block.
//
// No I/O, no clock. Not thread-safe but for pins: the log's lock serialises.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "storage-backend/log/block_index.h"
#include "storage-backend/log/log_format.h"
#include "storage-backend/log/range_overlay.h"

namespace ebb::storage {

inline constexpr uint32_t kNoCacheBlock = 0;
inline constexpr uint32_t kNoSegment = 0xffffffff;

class LogMap {
 public:
  struct DirtyBlock {
    uint64_t block = 0;
    uint32_t cache_block = 0;
    uint32_t crc32c = 0;
  };

  explicit LogMap(const LogGeometry& geometry);

  // --- blocks ---
  // The cache block that holds the newest version of `block`, or kNoCacheBlock.
  uint32_t Find(uint64_t block) const { return index_.Find(static_cast<uint32_t>(block)); }
  // Whether Find(block) would be `cache_block`; cheaper, where one has a guess.
  bool IsAt(uint64_t block, uint32_t cache_block) const {
    return cache_block < geometry_.end_block() && infos()[cache_block].block == block &&
           live_.Get(cache_block);
  }
  uint32_t Crc(uint32_t cache_block) const { return infos()[cache_block].crc32c; }
  bool IsDirty(uint32_t cache_block) const { return dirty_.Get(cache_block); }
  void Prefetch(uint64_t block) const { index_.Prefetch(static_cast<uint32_t>(block)); }
  // `cache_block` now holds `block`, written by the group and entry of `order`. False, and nothing
  // changed, when the log already has something newer for the block (two writers at once). Not
  // `dirty`: the same content as in the capacity tier.
  bool Put(uint64_t block, uint32_t cache_block, uint32_t crc32c, uint64_t order, bool dirty);
  // [first, first + count) reads as zeroes from `order` on. `pending`: the capacity tier has yet to
  // learn of it.
  void PutRange(uint64_t first, uint64_t count, uint64_t order, bool pending);
  // The block was stored in the capacity tier; nothing happens when it was overwritten meanwhile.
  void MarkClean(const DirtyBlock& block);
  // The block in the log is damaged: the log knows it no more, unless it was overwritten meanwhile.
  void Forget(const DirtyBlock& block);
  bool IsZeroed(uint64_t block) const { return !overlay_.empty() && overlay_.Find(block) != 0; }
  RangeOverlay& overlay() { return overlay_; }
  // Changes whenever the block may have changed (shared by blocks of the same hash).
  uint32_t Generation(uint64_t block) const { return generations_[GenerationSlot(block)]; }

  // --- segments ---
  bool CanOpenSegment() const;
  // Appends the segment that has been free longest to the chain; its first group is `sequence`.
  uint32_t OpenSegment(uint64_t sequence);
  // Recovery: appends this one, which must be free.
  void OpenSegmentAt(uint32_t segment, uint64_t sequence);
  // The active segment has groups up to `sequence`.
  void SetLastSequence(uint64_t sequence) { segments_[chain_.back()].last_sequence = sequence; }
  // Counts segments at the chain's front as clean, as far as they are. Everything up to
  // `durable_sequence` survives power loss; the active segment is left out unless `sealed`.
  void AdvanceClean(uint64_t durable_sequence, bool sealed);
  // The end of recovery: everything below `dirty_from` is known to be in the capacity tier.
  void EndReplay(uint64_t dirty_from);
  // Releases the oldest clean segment; its blocks leave the index. A pinned one becomes free when
  // CollectUnpinned finds it unpinned.
  void ReleaseOldest();
  void CollectUnpinned();
  struct Collected {
    std::vector<DirtyBlock> blocks;
    bool held_back = false;  // there are more, but they are not durable yet
  };
  // Dirty blocks of groups up to `durable_sequence`, oldest segment first, at most `max_count`,
  // none of the newest `keep_segments`. That group ends before `durable_end_block`, which matters
  // where its segment goes on.
  Collected CollectDirty(size_t max_count, size_t keep_segments, uint64_t durable_sequence,
                         uint32_t durable_end_block) const;
  // Whether the oldest unclean segment would be clean if everything were durable.
  bool OldestWaitsForFlush(uint64_t durable_sequence) const;
  // At most this many segments may be not clean: the write space.
  void SetWriteSegmentLimit(uint32_t segment_count) { write_segment_limit_ = segment_count; }

  void Pin(uint32_t segment) { pins_[segment].fetch_add(1, std::memory_order_relaxed); }
  void Unpin(uint32_t segment) { pins_[segment].fetch_sub(1, std::memory_order_release); }

  // The first sequence number of chain position `index`, or `fallback` past the end.
  uint64_t FirstSequence(size_t index, uint64_t fallback) const {
    return index < chain_.size() ? segments_[chain_[index]].first_sequence : fallback;
  }
  uint32_t active_segment() const { return chain_.empty() ? kNoSegment : chain_.back(); }
  const LogGeometry& geometry() const { return geometry_; }
  size_t chain_count() const { return chain_.size(); }
  size_t clean_count() const { return clean_count_; }
  size_t unclean_count() const { return chain_.size() - clean_count_; }
  size_t free_count() const { return free_.size(); }
  uint32_t write_segment_limit() const { return write_segment_limit_; }
  uint64_t dirty_blocks() const { return dirty_blocks_; }
  uint64_t live_blocks() const { return index_.size(); }
  uint64_t coalesced_blocks() const { return coalesced_blocks_; }
  size_t memory_bytes() const;

 private:
  struct BlockInfo {
    uint32_t block;
    uint32_t crc32c;
  };
  struct Segment {
    uint64_t first_sequence = 0;
    uint64_t last_sequence = 0;
    // The newest group that superseded a dirty block or a pending range of this segment: until it
    // is durable, power loss would bring the old version back, so it must stay recoverable.
    uint64_t superseded_by = 0;
    uint32_t dirty_blocks = 0;
    bool free = true;
  };
  // One bit a cache block.
  class Bits {
   public:
    explicit Bits(uint32_t count) : words_((count + 63) / 64) {}
    bool Get(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
    void Set(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
    void Clear(uint32_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
    // The first set bit in [from, end), or end.
    uint32_t NextSet(uint32_t from, uint32_t end) const;
    size_t memory_bytes() const { return words_.size() * sizeof(uint64_t); }

   private:
    std::vector<uint64_t> words_;
  };
  static constexpr size_t kGenerationSlots = 4096;

  BlockInfo* infos() { return reinterpret_cast<BlockInfo*>(info_memory_.data()); }
  const BlockInfo* infos() const { return reinterpret_cast<const BlockInfo*>(info_memory_.data()); }
  static size_t GenerationSlot(uint64_t block) { return block % kGenerationSlots; }
  // Whether what is in cache block `a` was logged after what is in `b`.
  bool IsNewer(uint32_t a, uint32_t b) const;
  // A pending range of order `range_order` is superseded, in whole or part, by group `sequence`.
  void SupersedeRange(uint64_t range_order, uint64_t sequence);
  // The version in `cache_block` is superseded by group `sequence`; the index is the caller's.
  void Kill(uint32_t cache_block, uint64_t sequence);
  bool IsClean(const Segment& segment, uint64_t durable_sequence) const;
  void EraseFromIndex(uint64_t first, uint64_t count, uint64_t order);

  LogGeometry geometry_;
  BlockIndex index_;
  AlignedBuffer info_memory_;
  Bits live_;   // the index points here
  Bits dirty_;  // live, and not yet in the capacity tier
  RangeOverlay overlay_;
  std::vector<uint32_t> generations_;
  std::vector<Segment> segments_;
  std::unique_ptr<std::atomic<uint32_t>[]> pins_;
  std::deque<uint32_t> chain_;
  std::deque<uint32_t> free_;
  std::vector<uint32_t> limbo_;  // released, still pinned by a reader
  size_t clean_count_ = 0;
  uint32_t write_segment_limit_;
  uint64_t dirty_blocks_ = 0;
  uint64_t coalesced_blocks_ = 0;
};

}  // namespace ebb::storage
