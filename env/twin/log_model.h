// LogModel: the cache device's log without its bytes: groups, segments, what is dirty.
//
// The same structure as storage-backend/log (cache_log.h, log_map.h), which see for why: groups of
// blocks behind a header, written by whoever closes them; segments that are clean when nothing of
// them is needed, released first in, first out; destage only of what is durable. Time passes only
// in the device's model. Superseded blocks leave by BlockTable, which holds the index.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "env/twin/block_table.h"
#include "storage-backend/device/service_model.h"
#include "storage-backend/log/log_format.h"

namespace ebb::twin {

class LogModel {
 public:
  struct Geometry {
    uint32_t segment_blocks = 0;
    uint32_t segment_count = 0;
  };
  // As the node chooses it for a device `divisor` times as large, made smaller.
  static Geometry ChooseGeometry(uint64_t device_bytes, double divisor);

  // What a block of the log holds.
  struct Content {
    uint32_t block = 0;
    uint32_t content = 0;  // 0: nobody else has it
    uint16_t compressed_per_mille = 1000;
  };
  struct DirtyBlock {
    uint32_t block = 0;
    uint32_t cache_block = 0;
  };

  LogModel(const Geometry& geometry, BlockTable& table, storage::ServiceModel& device);

  // --- appending ---
  // Appends one block; false: no segment can be opened. `now_ns` moves on to when the block is in
  // memory, which is later when every group buffer waits for the device. A copy is left out, and
  // true, when something newer is there.
  bool Append(const Content& content, bool dirty, uint64_t& now_ns);
  // [first, first + count) reads as zeroes; the capacity tier is told by destage.
  bool Trim(uint32_t first, uint32_t count, uint64_t& now_ns);
  bool CanAppend() const;
  // Whether the block is in the buffer of a group, no device needed.
  bool InBuffer(uint32_t cache_block) const;

  // --- groups and flushes ---
  // Closes an open group opened at `opened_before_ns` or earlier; returns when the group that is
  // open now was opened, or 0.
  uint64_t CloseOld(uint64_t now_ns, uint64_t opened_before_ns);
  // The number of the newest group that has anything.
  uint64_t newest_sequence() const {
    return open_ == kNone ? closed_sequence_ : groups_[open_].sequence;
  }
  uint64_t durable_sequence() const { return durable_sequence_; }
  // Closes the open group for a flush: the flush will cover `sequence`, all of it is on the device
  // at `written_ns`.
  struct FlushTarget {
    uint64_t sequence = 0;
    uint32_t end_block = 0;
    uint64_t written_ns = 0;
  };
  FlushTarget BeginFlush(uint64_t now_ns);
  void EndFlush(const FlushTarget& target);

  // --- destage ---
  // As LogMap::CollectDirty; `held_back`: there is more that is not durable.
  bool CollectDirty(size_t max_count, double keep_fill, std::vector<DirtyBlock>& blocks) const;
  // The capacity tier has the block; nothing happens when it was overwritten meanwhile.
  bool MarkClean(const DirtyBlock& block);
  // Durable ranges that were trimmed, oldest first, at most 256; they are the tier's from now on.
  struct Range {
    uint32_t first = 0;
    uint32_t count = 0;
    uint64_t sequence = 0;
  };
  std::vector<Range> TakeRanges();
  bool WantsFlush() const;  // the oldest segment is clean but for that
  struct Released {
    bool advanced = false;
    uint32_t segments = 0;  // the durable tail moved when not 0
  };
  Released ReleaseClean();

  // --- space ---
  void SetReadShare(double share);
  double fill() const { return fill_; }
  bool wants_copies() const { return clean_segments_kept_ > 0; }
  uint64_t write_space_bytes() const { return uint64_t{write_limit_} * segment_bytes(); }
  uint64_t segment_bytes() const { return uint64_t{geometry_.segment_blocks} * 4096; }
  uint64_t space_bytes() const { return geometry_.segment_count * segment_bytes(); }
  uint64_t free_bytes() const { return free_.size() * segment_bytes(); }
  uint64_t dirty_blocks() const { return dirty_blocks_; }
  uint64_t coalesced_blocks() const { return coalesced_blocks_; }
  uint64_t appended_blocks() const { return appended_blocks_; }
  uint64_t cleaned_bytes() const { return cleaned_bytes_; }
  uint64_t written_bytes() const { return written_bytes_; }
  uint64_t full_groups() const { return full_groups_; }  // closed by the block that filled them
  bool has_work() const { return dirty_blocks_ > 0 || !ranges_.empty(); }
  const Content& At(uint32_t cache_block) const { return contents_[cache_block]; }
  bool IsDirty(uint32_t cache_block) const { return Get(dirty_, cache_block); }

  // All group buffers are in turn, as after a burst that needed them once: the last of them serve
  // reads for longer.
  void UseAllBuffers() { groups_in_turn_ = kGroups; }
  // Until it is set back, the device takes no time: to begin a run with a full log.
  void SetInstant(bool instant) { instant_ = instant; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kGroups = storage::kGroupBuffers;

  struct Group {
    uint64_t sequence = 0;
    uint64_t opened_ns = 0;
    uint64_t written_ns = 0;  // when the device has it
    uint32_t header_block = 0;
    uint32_t used = 0;
    uint32_t capacity = 0;
  };
  struct Segment {
    uint64_t first_sequence = 0;
    uint64_t last_sequence = 0;
    uint64_t superseded_by = 0;
    uint32_t dirty_blocks = 0;
  };
  // A queue of segment numbers in a ring: never more than there are segments.
  class Ring {
   public:
    explicit Ring(uint32_t capacity) : items_(capacity) {}
    uint32_t front() const { return items_[begin_]; }
    uint32_t back() const { return (*this)[count_ - 1]; }
    uint32_t operator[](size_t i) const { return items_[(begin_ + i) % items_.size()]; }
    void push_back(uint32_t value) { items_[(begin_ + count_++) % items_.size()] = value; }
    void pop_front() {
      begin_ = (begin_ + 1) % items_.size();
      --count_;
    }
    size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }

   private:
    std::vector<uint32_t> items_;
    size_t begin_ = 0;
    size_t count_ = 0;
  };
  using Bits = std::vector<uint64_t>;

  static bool Get(const Bits& bits, uint32_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }
  static void Set(Bits& bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
  static void Clear(Bits& bits, uint32_t i) { bits[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  static uint32_t NextSet(const Bits& bits, uint32_t from, uint32_t end);

  uint32_t SegmentOf(uint32_t cache_block) const {
    return (cache_block - 1) / geometry_.segment_blocks;
  }
  uint32_t FirstBlock(uint32_t segment) const { return 1 + segment * geometry_.segment_blocks; }
  size_t unclean_count() const { return chain_.size() - clean_count_; }
  bool CanOpenSegment() const { return !free_.empty() && unclean_count() < write_limit_; }
  bool OpenGroup(uint32_t slots_min, uint64_t& now_ns);
  size_t IdleGroup(uint64_t& now_ns);
  void OpenSegment();
  void CloseGroup(uint64_t now_ns);
  void Kill(uint32_t cache_block, uint64_t sequence);
  bool IsClean(const Segment& segment, uint64_t durable_sequence) const;
  void ReleaseOldest();
  void UpdateFill();

  const Geometry geometry_;
  BlockTable& table_;
  storage::ServiceModel& device_;
  std::vector<Content> contents_;
  Bits live_;
  Bits dirty_;
  std::vector<Segment> segments_;
  Ring chain_;
  Ring free_;
  size_t clean_count_ = 0;
  uint32_t write_limit_;
  uint32_t clean_segments_kept_ = 0;

  std::array<Group, kGroups> groups_{};
  size_t groups_in_turn_ = storage::kGroupsInTurnMin;
  uint32_t open_ = kNone;
  bool active_ = false;
  uint32_t active_used_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t closed_sequence_ = 0;
  uint32_t closed_end_block_ = 0;
  uint64_t durable_sequence_ = 0;
  uint32_t durable_end_block_ = 0;
  uint64_t last_written_ns_ = 0;  // of all groups so far

  std::vector<Range> ranges_;  // by sequence
  uint64_t dirty_blocks_ = 0;
  uint64_t coalesced_blocks_ = 0;
  uint64_t appended_blocks_ = 0;
  uint64_t cleaned_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t full_groups_ = 0;
  double fill_ = 0;
  bool instant_ = false;
};

}  // namespace ebb::twin
