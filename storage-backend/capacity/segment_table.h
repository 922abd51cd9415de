// SegmentTable knows every segment: free, open, sealed or freed but still in readers' hands.
//
// Changes belong to a change set: they are visible at once to its maker, and end with Commit (they
// are in the journal now) or Rollback (nothing happened). Records are written back later, in the
// order in which they became dirty, as pages of the map are (block_map.h). One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "storage-backend/capacity/layout.h"
#include "storage-backend/capacity/records.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

// Who writes: blocks from the cache tier, or compaction. Each has its own open segment on a device,
// because what compaction moves is older and lives longer than what has just been written.
enum class Stream : uint8_t { kStore = 0, kCompaction = 1 };

// Where the next extent goes.
struct ExtentPlace {
  SegmentId id;
  uint64_t sequence = 0;
  uint32_t offset_in_segment = 0;
  uint64_t limit_bytes = 0;  // the extent may take
};

class SegmentTable {
 public:
  SegmentTable(const CapacityLayout& layout, const std::vector<uint64_t>& device_bytes);

  // At open: the record in the metadata, or the newer one in the journal since its record
  // `dirty_since` (0: none).
  absl::Status Load(SegmentId id, const SegmentRecord& record, uint64_t dirty_since = 0);
  // Places for extents, each at least `bytes_min` long (header included), on the devices in turn,
  // weighted by their free space. nullopt when there is no room left for `stream`.
  std::optional<ExtentPlace> NextExtent(Stream stream, uint64_t bytes_min, uint64_t* next_sequence);
  // The extent at `place` takes `bytes`.
  void Use(const ExtentPlace& place, uint64_t bytes);
  // So many more (or fewer) bytes of the segment are live, and expected to remain after a move.
  void AddLive(SegmentId id, int64_t live_bytes, int64_t expected_bytes);
  // Sealed segments without a live byte become free, to be reused after Release: returns them, and
  // adds the new records of all changed segments to `changes`.
  std::vector<SegmentId> Finish(std::vector<SegmentChange>& changes);
  // The changes are durable in the journal's record `sequence`.
  void Commit(uint64_t sequence);
  void Rollback();

  // The oldest record of the journal that some segment depends on, not counting those that
  // WriteBack has added to a batch; UINT64_MAX: none.
  uint64_t oldest_dirty() const;
  // Adds the records that are dirty since a record of the journal below `sequence` to `batch`.
  void WriteBack(uint64_t sequence, MetadataBatch& batch);
  void WrittenBack();

  // Freed and committed segments wait for readers to leave; then they may be written again.
  void Release(SegmentId id);

  // The segment that holds `offset` of `device`.
  SegmentId SegmentAt(uint8_t device, uint64_t offset) const {
    return {device, layout_.SegmentOf(offset)};
  }
  // Whether the place lies in the written part of a segment in use.
  bool IsWritten(uint8_t device, uint64_t offset, uint64_t bytes) const;
  // DataLoss when the record's place does not.
  absl::Status CheckPlace(uint64_t unit, const UnitRecord& record) const;
  const SegmentRecord& Get(SegmentId id) const { return At(id).record; }
  void MarkDamaged(SegmentId id) { damaged_.insert(id); }
  bool IsDamaged(SegmentId id) const { return damaged_.contains(id); }
  // Calls visit(id, record) for every segment that is not free.
  template <typename Visit>
  void ForEachUsed(const Visit& visit) const {
    for (size_t device = 0; device < devices_.size(); ++device) {
      for (uint32_t segment = 0; segment < devices_[device].segments.size(); ++segment) {
        const SegmentId id{static_cast<uint8_t>(device), segment};
        if (At(id).record.state != SegmentState::kFree) visit(id, At(id).record);
      }
    }
  }
  // Runs of free segments of `device`, as (first, count); not those that still wait for readers.
  std::vector<std::pair<uint32_t, uint32_t>> FreeRuns(uint8_t device) const;

  uint64_t total_segments() const { return total_segments_; }
  uint64_t free_segments() const { return free_segments_; }
  // Bytes written to segments in use or not yet released.
  uint64_t written_bytes() const { return written_bytes_; }
  uint64_t live_bytes() const { return live_bytes_; }
  // Room left in the open segments of `stream`.
  uint64_t OpenBytes(Stream stream) const;

 private:
  struct Segment {
    SegmentRecord record;
    bool released = true;  // of a free one: may be written again
    bool edited = false;   // in this change set
    uint32_t unreleased_bytes = 0;
    uint64_t dirty_since = 0;  // record of the journal; 0: the metadata has this record
  };
  struct DeviceSegments {
    std::vector<Segment> segments;
    std::array<std::optional<uint32_t>, 2> open;  // by stream
    uint64_t free = 0;
    uint32_t cursor = 0;  // the next free segment is looked for from here, so that runs are long
    double credit = 0;    // for the weighted turn
  };

  Segment& At(SegmentId id) { return devices_[id.device].segments[id.segment]; }
  const Segment& At(SegmentId id) const { return devices_[id.device].segments[id.segment]; }
  // The segment, its present state remembered for Rollback.
  Segment& Edit(SegmentId id);
  bool HasRoom(const DeviceSegments& device, Stream stream, uint64_t bytes_min) const;
  std::optional<size_t> NextDevice(Stream stream, uint64_t bytes_min);
  uint32_t OpenSegment(size_t device, Stream stream, uint64_t sequence);
  void Seal(size_t device, Stream stream);

  const CapacityLayout layout_;
  std::vector<DeviceSegments> devices_;
  std::vector<std::pair<SegmentId, Segment>> undo_;  // state before the change set
  std::vector<std::array<std::optional<uint32_t>, 2>> undo_open_;
  std::deque<SegmentId> dirty_;  // by dirty_since
  size_t writing_back_ = 0;      // at the front of dirty_
  std::set<SegmentId> damaged_;
  uint64_t total_segments_ = 0;
  uint64_t free_segments_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t live_bytes_ = 0;
};

}  // namespace ebb::storage
