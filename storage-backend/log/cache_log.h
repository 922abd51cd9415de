// CacheLog is the write-back cache tier: an append-only log of groups on the cache device, and the
// map of what it holds.
//
// Life of a write: a slot in the open group is reserved, the data copied into it and summed outside
// the lock, then the map points to it and the write is acknowledged. A full group, or one that a
// flush or its age closes, is submitted to the device at once by whoever closed it and completed by
// whoever next needs it: no thread hand-off. A flush waits for all groups so far, then flushes the
// device; concurrent flushes share one device flush.
//
//   group buffer: idle -> open -> closed -> in flight -> idle (still serves reads until reused)
//
// A failed group write or device flush is final: the log is fenced, every later append and flush
// fails, reads go on (a failed group's blocks are served from its buffer).
//
// Invariants that recovery rests on (argued in docs/formats.md, "Cache device"):
//   1. The capacity tier is never ahead of the durable log: only durable blocks and ranges are
//      destaged.
//   2. The durable tail (replay_from) is never ahead of the capacity tier: a segment is released
//      only when all it holds is stored or superseded by something durable, and reused only after
//      the tail that excludes it is durable.
//
// Thread-safe, except where a name ends in Locked: those need mutex() held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "storage-backend/device/device.h"
#include "storage-backend/log/log_format.h"
#include "storage-backend/log/log_map.h"
#include "storage-backend/log/lost_blocks.h"
#include "storage-backend/metadata/metadata_store.h"
#include "storage-backend/policy/flush_grouping.h"

namespace ebb::storage {

class CacheLog {
 public:
  struct Options {
    Device* device = nullptr;           // borrowed, as all of these
    MetadataStore* metadata = nullptr;  // keeps the durable tail
    Clock* clock = nullptr;
    Uuid node_uuid{};
    // Of this session: above that of every group written before.
    uint64_t epoch = 0;
    LogGeometry geometry;
    size_t group_buffers = kGroupBuffers;
    // Called with the lock held after [first, first + count) changed: the read cache drops it.
    std::function<void(uint64_t first, uint64_t count)> on_change;
  };

  // The durable state of the log besides its groups.
  struct Tail {
    uint64_t epoch = 0;
    uint64_t replay_from = 1;  // groups below are forgotten
    uint64_t dirty_from = 1;   // groups below are in the capacity tier
    // Groups below were durable when the last session began or was closed: should one be missing,
    // that is damage and not a torn end.
    uint64_t durable_below = 0;
  };
  // What the metadata store has; a fresh Tail when it has none.
  static absl::StatusOr<Tail> ReadTail(MetadataStore& metadata);
  static absl::Status WriteTail(MetadataStore& metadata, const Tail& tail);

  // Where the newest version of a block is. A pinned one must be handed to Unpin.
  struct Place {
    enum class Kind : uint8_t { kAbsent, kZeroes, kBuffer, kDevice, kLost };
    Kind kind = Kind::kAbsent;
    uint32_t crc32c = 0;
    uint32_t cache_block = 0;
    uint32_t pin = 0;                 // group or segment
    const std::byte* data = nullptr;  // of kBuffer
  };

  struct Appended {
    uint32_t count = 0;     // blocks taken; 0: no segment is free, make room first
    uint64_t sequence = 0;  // flush up to this group to make them durable
  };

  struct Usage {
    uint64_t dirty_blocks = 0;
    uint64_t live_blocks = 0;
    uint64_t coalesced_blocks = 0;
    uint64_t appended_blocks = 0;  // of user data
    uint64_t copied_blocks = 0;    // from the capacity tier
    uint64_t written_bytes = 0;    // to the device
    uint64_t free_segments = 0;
    uint64_t overlay_ranges = 0;
    uint64_t lost_blocks = 0;
    size_t memory_bytes = 0;
    double fill = 0;
  };

  // Replays the log; nothing is written but a device flush. `progress` gets a share in [0, 1].
  static absl::StatusOr<std::unique_ptr<CacheLog>> Open(
      Options options, const std::function<void(double)>& progress = nullptr);
  ~CacheLog();

  // --- data path ---
  // Appends leading blocks of `data`, as many as the open group has room for. When `generation` is
  // given, the write is withdrawn (Aborted) if the block, which must be a single one, changed since
  // Generation returned it.
  absl::StatusOr<Appended> Append(uint64_t first_block, std::span<const std::byte> data,
                                  uint64_t now_ns, const uint32_t* generation = nullptr);
  // Keeps a copy of blocks that were just read from the capacity tier, as many as there is room for
  // without opening a segment that writes may need; none that changed since `generations` (one a
  // block) were taken.
  void AppendCopies(uint64_t first_block, std::span<const std::byte> data,
                    std::span<const uint32_t> generations, uint64_t now_ns);
  absl::StatusOr<Appended> AppendRange(EntryKind kind, uint64_t first_block, uint64_t count,
                                       uint64_t now_ns);
  // Everything appended before the call is durable on return.
  absl::Status Flush();
  absl::Status FlushTo(uint64_t sequence);
  void SetFlushGroupUs(uint64_t us) { flush_group_us_.store(us, std::memory_order_relaxed); }
  // Closes an open group older than `group_age_ns` and collects completions. When there is an open
  // group, returns the time at which to call again, else 0.
  uint64_t Tick(uint64_t now_ns, uint64_t group_age_ns);

  // The lock of the map and the groups. The volume's read cache shares it, so that a look-up in
  // both is one step and no reader sees a block go back.
  std::mutex& mutex() { return mutex_; }
  Place FindLocked(uint64_t block);
  // The same for the block after the one that is at `before`: both were written together, most
  // often, and then it takes no look-up.
  Place FindNextLocked(const Place& before, uint64_t block);
  // Whether the newest version of `block` is in the log and not yet in the capacity tier.
  bool IsDirtyLocked(uint64_t block) const {
    const uint32_t cache_block = map_.Find(block);
    return cache_block != kNoCacheBlock && map_.IsDirty(cache_block);
  }
  uint32_t GenerationLocked(uint64_t block) const { return map_.Generation(block); }
  void Unpin(const Place& place);

  // --- write space ---
  // The share of the space that is left to clean copies.
  void SetReadShare(double share);
  // Share of the write space in use; above 1 after the write space was made smaller.
  double fill() const { return fill_.load(std::memory_order_relaxed); }
  uint64_t write_space_bytes() const { return write_space_bytes_.load(std::memory_order_relaxed); }
  uint64_t overlay_ranges() const { return overlay_ranges_.load(std::memory_order_relaxed); }
  // Whether clean copies of what is read from the capacity tier are worth appending now.
  bool WantsCopies() const { return clean_segments_kept_.load(std::memory_order_relaxed) > 0; }
  uint64_t appended_blocks() const { return appended_blocks_.load(std::memory_order_relaxed); }
  uint64_t dirty_blocks() const { return dirty_blocks_.load(std::memory_order_relaxed); }
  // Cumulative: of segments that became clean. What superseded blocks took up counts as well.
  uint64_t cleaned_bytes() const { return cleaned_bytes_.load(std::memory_order_relaxed); }
  // Waits, at most 20 ms of real time, for a segment to become free.
  void WaitForSpace();
  // The first error that fenced the log, or OK.
  absl::Status Fence();

  // --- destage (one thread at a time) ---
  // The oldest durable dirty blocks, none of the newest segments that make up `keep_fill` of the
  // write space; they stay where they are until ReleaseClean. When there is nothing durable but
  // something dirty, flushes first.
  absl::StatusOr<std::vector<LogMap::DirtyBlock>> CollectDirty(size_t max_count, double keep_fill);
  // Those blocks are stored durably in the capacity tier.
  absl::Status MarkClean(std::span<const LogMap::DirtyBlock> blocks);
  // Those blocks are damaged on the cache device: from now on they read as lost.
  absl::Status MarkLost(std::span<const LogMap::DirtyBlock> blocks);
  // Durable ranges that the capacity tier does not know yet; flushes first when only others exist.
  absl::StatusOr<std::vector<OverlayRange>> PendingRanges(size_t max_count);
  absl::Status RangesApplied(std::span<const OverlayRange> ranges);
  // Counts segments clean and releases the oldest beyond what the read share keeps, after making
  // the new tail durable. True when a segment became clean or was released.
  absl::StatusOr<bool> ReleaseClean();
  bool HasWork();  // anything dirty or pending

  // Makes this session's epoch durable: before the first append.
  absl::Status BeginSession();
  // Flushes, and records durably that the log ends here. Nothing may be appended after it.
  absl::Status Close();

  Usage GetUsageLocked();
  uint64_t device_errors() const { return device_errors_.load(std::memory_order_relaxed); }
  const LogGeometry& geometry() const { return map_.geometry(); }
  const Options& options() const { return options_; }

 private:
  friend class LogRecovery;

  enum class GroupState : uint8_t { kIdle, kOpen, kClosed, kInFlight, kFailed };
  struct Group {
    std::span<std::byte> buffer;  // header block, then payload; a part of buffers_
    std::unique_ptr<IoQueue> queue;
    Io io;
    GroupState state = GroupState::kIdle;
    uint64_t sequence = 0;
    uint32_t capacity = 0;  // payload blocks it may take
    uint32_t entry_count = 0;
    uint32_t pending = 0;  // reservations not committed yet
    bool reaping = false;  // a thread waits in its queue
    uint64_t opened_ns = 0;
    std::atomic<uint32_t> pins{0};
  };
  // What a group's buffer holds a copy of; apart from Group, so that a look-up passes over all of
  // them in one or two cache lines.
  struct Mirror {
    uint32_t header_block = 0;  // 0: nothing
    uint32_t used = 0;          // payload blocks behind it
  };
  static constexpr uint32_t kNoGroup = 0xffffffff;

  struct Reservation {
    uint32_t group = kNoGroup;
    uint32_t first_slot = 0;
    uint32_t first_entry = 0;
    uint32_t count = 0;  // 0: no room
    uint64_t sequence = 0;
  };
  // Client blocks whose place in the log is reserved and whose data is being copied there.
  struct PendingWrite {
    uint64_t order = 0;  // of its first entry
    uint64_t first_block = 0;
    uint32_t count = 0;
  };
  using Lock = std::unique_lock<std::mutex>;

  explicit CacheLog(Options options);

  // cache_log.cc
  absl::StatusOr<Appended> AppendData(EntryKind kind, uint64_t first_block,
                                      std::span<const std::byte> data,
                                      std::span<const uint32_t> generations, uint64_t now_ns);
  // Whether an earlier write of `block` has its place but is not in the map yet. What was decided
  // by the map must not go in front of it: the write, older in the log, would never be seen.
  bool IsWritePending(uint64_t block, uint64_t before_order) const;
  // Puts the reserved blocks into the map; those that may not be become void. False if there were.
  bool PutReservedLocked(const Reservation& reservation, EntryKind kind, uint64_t first_block,
                         std::span<const uint32_t> crcs, std::span<const uint32_t> generations);
  absl::StatusOr<Reservation> Reserve(Lock& lock, uint32_t slots, uint32_t entries,
                                      uint64_t now_ns);
  void CommitLocked(const Reservation& reservation);
  // cache_log_groups.cc: groups and flushes
  bool OpenGroup(Lock& lock, uint32_t slots_min, uint64_t now_ns);
  void CloseOpenLocked();
  void MarkReadyLocked(uint32_t group);
  void SubmitReady(Lock& lock);
  void CompleteLocked(uint32_t group);
  void FenceLocked(const absl::Status& cause, const std::string& what);
  bool ReapGroup(Lock& lock, uint32_t group, bool wait);
  uint32_t IdleGroupLocked() const;
  bool ReapDone(Lock& lock);
  // Makes it likelier that one of the groups in turn is idle.
  void FreeAGroup(Lock& lock);
  void WaitForGroup(Lock& lock);
  void WaitWritten(Lock& lock, uint64_t sequence);
  absl::Status LeadFlush(Lock& lock);
  void UpdateFillLocked();
  // cache_log_destage.cc
  absl::Status ClearLost(const std::vector<uint64_t>& blocks);

  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;        // group states, flushes
  std::condition_variable space_changed_;  // segments released
  LogMap map_;
  LostBlocks lost_;
  AlignedBuffer buffers_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Mirror> mirrors_;  // one a group
  // Groups that are used in turn; more only while the device keeps those busy, since every other
  // buffer is cold memory.
  size_t groups_in_turn_ = kGroupsInTurnMin;
  std::vector<PendingWrite> pending_writes_;  // few: one a thread that writes
  std::vector<uint32_t> ready_;               // closed, all committed, to be submitted
  uint32_t open_ = kNoGroup;
  bool active_ = false;  // the chain's last segment takes more groups
  uint32_t active_used_blocks_ = 0;
  uint64_t next_sequence_ = 1;
  // The newest closed group, and where it ends in its segment.
  uint64_t closed_sequence_ = 0;
  uint32_t closed_end_block_ = 0;
  // The same for what is durable.
  uint64_t durable_sequence_ = 0;
  uint32_t durable_end_block_ = 0;

  absl::Status fence_;
  bool flushing_ = false;
  size_t flush_members_ = 0;  // flushes that the next device flush will answer
  FlushGrouping grouping_;
  std::atomic<uint64_t> flush_group_us_{0};
  Tail tail_;  // as last made durable
  std::atomic<uint32_t> clean_segments_kept_{0};
  std::atomic<uint64_t> appended_blocks_{0};
  uint64_t copied_blocks_ = 0;
  uint64_t written_bytes_ = 0;
  std::atomic<double> fill_{0};
  std::atomic<uint64_t> dirty_blocks_{0};
  std::atomic<uint64_t> overlay_ranges_{0};
  std::atomic<uint64_t> write_space_bytes_{0};
  std::atomic<uint64_t> cleaned_bytes_{0};
  std::atomic<uint64_t> device_errors_{0};
};

}  // namespace ebb::storage
