// MapTransaction gathers one change of the block map and works out everything that follows from it:
// reference counts, dead units and fingerprints, live bytes of segments, totals.
//
// Usage: load what is touched, create or move units, point blocks (ascending), Prepare the batch,
// commit it. It edits the segment table as it goes; the caller commits or rolls that back with the
// metadata. Until its end it holds the pages of the blocks that were loaded. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/capacity/block_map.h"
#include "storage-backend/capacity/records.h"
#include "storage-backend/capacity/segment_table.h"
#include "storage-backend/capacity/unit_cache.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class MapTransaction {
 public:
  MapTransaction(MetadataStore& metadata, BlockMap& map, UnitCache& cache, SegmentTable& segments,
                 const TotalsRecord& totals);
  ~MapTransaction() { map_.LetGo(); }
  MapTransaction(const MapTransaction&) = delete;
  MapTransaction& operator=(const MapTransaction&) = delete;

  // What `blocks` (ascending) are mapped to now; the units behind them are loaded.
  absl::StatusOr<std::vector<MapEntry>> LoadBlocks(std::span<const uint64_t> blocks);
  // Units not loaded yet; absent ones are no error.
  absl::Status LoadUnits(std::vector<uint64_t> units);
  // A loaded or created unit as it will be; nullptr when there is none.
  const UnitRecord* Unit(uint64_t unit) const;

  // A new unit without references; its place comes from PlaceUnit. `fingerprints`, ascending, are
  // of the blocks that are to be found by their content.
  uint64_t CreateUnit(UnitRecord record, std::vector<BlockFingerprint> fingerprints);
  // The unit's bytes are there now: of the blocks in `stored_mask`.
  void PlaceUnit(uint64_t unit, SegmentId segment, uint64_t device_offset, uint32_t stored_bytes,
                 uint32_t stored_mask, Compression codec);
  void AddExtent(const ExtentPlace& place, ExtentContent content);

  // `block`, behind all before it, is `entry` now instead of `old`. Either may be unmapped.
  absl::Status Point(uint64_t block, const MapEntry& old, const MapEntry& entry);

  uint64_t* next_sequence() { return &totals_.next_sequence; }

  // Adds to `batch` what follows from the change, but for its record in the journal and the totals;
  // returns the segments that are free once it is committed.
  absl::StatusOr<std::vector<SegmentId>> Prepare(MetadataBatch& batch);
  // After Prepare: what the journal is to say, the totals, and the units that a commit changes.
  const std::vector<MapChange>& changes() const { return changes_; }
  const std::vector<SegmentChange>& segment_changes() const { return segment_changes_; }
  TotalsRecord& totals() { return totals_; }
  // Calls visit(unit, record); the record is nullptr when the unit is gone.
  template <typename Visit>
  void ForEachChangedUnit(const Visit& visit) const {
    for (const auto& [unit, working] : units_) {
      if (!working.changed) continue;
      visit(unit, working.now.LiveMask() == 0 ? nullptr : &working.now);
    }
  }

 private:
  struct Working {
    UnitRecord now;
    bool existed = false;
    bool changed = false;
    SegmentId segment;  // of `now`
    // Before this transaction; nothing for a new unit.
    SegmentId segment_before;
    uint64_t live_bytes_before = 0;
    uint64_t expected_bytes_before = 0;
    uint64_t live_data_before = 0;
    uint32_t live_mask_before = 0;
    std::vector<BlockFingerprint> new_fingerprints;
  };

  void CountSegments(const Working& working);
  void CountDirect(const MapEntry& entry, int sign);
  absl::StatusOr<Working*> Find(const BlockRef& ref);
  absl::Status AddReference(const BlockRef& ref);
  absl::Status ReleaseReferences();
  absl::Status DropDeadFingerprints(MetadataBatch& batch);
  absl::Status WriteUnits(MetadataBatch& batch);
  absl::Status DropExtents(const std::vector<SegmentId>& freed, MetadataBatch& batch);

  MetadataStore& metadata_;
  BlockMap& map_;
  UnitCache& cache_;
  SegmentTable& segments_;
  TotalsRecord totals_;
  absl::flat_hash_map<uint64_t, Working> units_;
  std::vector<BlockRef> released_;  // after all additions, so that a moved reference does not die
  std::vector<MapChange> changes_;
  std::vector<SegmentChange> segment_changes_;
  MetadataBatch extents_;
};

}  // namespace ebb::storage
