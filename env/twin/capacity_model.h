// CapacityModel: where blocks lie on the capacity devices, and what reading, storing and moving
// them costs.
//
// As storage-backend/capacity, which see for why: blocks stored directly, units of blocks that were
// compressed together or may be shared, extents of up to 1 MiB, reference counts, compaction. It
// keeps no time: it tells transfers and processor time, and the simulator lets them happen.
//
//   place (BlockState::capacity)   0 unmapped   kElsewhere shared with a block that is not
//   simulated
//     direct   1 + block of all devices          unit   top bit | unit << 5 | position in it
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "env/twin/block_table.h"
#include "env/twin/log_model.h"
#include "env/twin/metadata_model.h"
#include "env/twin/node_model.h"
#include "env/twin/request_stream.h"
#include "env/twin/segment_space.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::twin {

struct Transfer {
  uint32_t device = 0;
  uint32_t bytes = 0;
  uint64_t offset = 0;  // on the device
};

struct StoreChoice {
  storage::Compression compression = storage::Compression::kOff;
  uint32_t unit_bytes = 32 * 1024;
  storage::Dedup dedup = storage::Dedup::kOff;

  bool deduplicates() const { return dedup != storage::Dedup::kOff; }
  bool reduces() const { return deduplicates() || compression != storage::Compression::kOff; }
  int parallelism = 1;
};

class CapacityModel {
 public:
  struct Usage {
    uint64_t logical_blocks = 0;
    uint64_t unique_blocks = 0;
  };
  struct Counters {
    uint64_t deduplicated_blocks = 0;
    uint64_t raw_bytes = 0;
    uint64_t stored_bytes = 0;
    uint64_t written_bytes = 0;
  };

  // Sizes of `node` are those to simulate. `divisor`: how much smaller it is than the node meant.
  CapacityModel(const NodeModel& node, const RequestStream& load, double divisor,
                BlockTable& table);

  // The whole volume was written in order and destaged with this choice; what the load never
  // touches is there, too. False when the devices are too small for it.
  bool Prefill(const StoreChoice& choice);

  // --- reads ---
  // Adds the transfers that read [first, first + count), in the order in which the node does them,
  // one after the other, and the processor time of look-ups and decompression.
  void PlanRead(uint32_t first, uint32_t count, std::vector<Transfer>& transfers, double& cpu_ns);

  // --- one batch of destage, or one step of compaction ---
  // What is to be stored, sorted by place in the volume.
  struct BatchBlock {
    uint32_t block = 0;
    uint32_t cache_block = 0;
    uint32_t content = 0;
    uint16_t compressed_per_mille = 1000;
  };
  // Returns the processor time before anything is packed: map, fingerprints, look-ups.
  double BeginBatch(std::vector<BatchBlock>& blocks, const StoreChoice& choice);
  // What it has to read before it packs, one after the other: guesses of sampled deduplication.
  const std::vector<Transfer>& read_back() const { return read_back_; }
  struct Extent {
    Transfer write;
    double serial_ns = 0;    // of one thread
    double parallel_ns = 0;  // of the compressing threads together
  };
  // Packs the next one; false when all is packed. `full` is set when the devices are.
  bool NextExtent(Extent& extent, bool& full);
  // All is written: the map changes. What it costs.
  struct CommitCost {
    double cpu_ns = 0;
    double metadata_bytes = 0;
  };
  CommitCost CommitBatch();
  // Whether the last batch had room for all of its blocks.
  bool stored_all() const { return stored_all_; }
  bool HasRoomFor(uint64_t blocks) const { return space_.HasRoomFor(blocks); }

  // Chooses segments to empty; false when none is worth it. Then NextExtent and CommitBatch as for
  // a batch.
  bool BeginCompaction(bool urgent, std::vector<Transfer>& reads);

  // Unmaps a trimmed block.
  void Unmap(uint32_t block);
  double CommitTrim() { return metadata_.Commit(0); }

  uint64_t FreeBytes() const { return space_.FreeBytes(); }
  uint64_t physical_bytes() const { return space_.written_bytes(); }
  const Usage& usage() const { return usage_; }
  const Counters& counters() const { return counters_; }
  const SegmentSpace& space() const { return space_; }

 private:
  static constexpr uint32_t kUnitBit = uint32_t{1} << 31;
  static constexpr uint32_t kPositionBits = 5;
  static constexpr uint32_t kElsewhere = kUnitBit - 1;
  static constexpr uint32_t kNoUnit = UINT32_MAX;

  struct Unit {
    uint64_t offset = 0;  // over all devices
    uint32_t stored_bytes = 0;
    uint8_t blocks = 0;
    uint8_t live = 0;
    storage::Compression codec = storage::Compression::kOff;
  };
  struct Shared {
    uint32_t place = 0;
    uint32_t references = 0;
    uint32_t batch = 0;  // in which `first` is the first block with it
    uint32_t first = 0;
  };
  // What goes into an extent: a direct block of the batch, or a unit.
  struct Packed {
    uint32_t unit = kNoUnit;
    uint32_t item = 0;  // position in the batch, of a direct block
    uint32_t payload_offset = 0;
  };
  static bool IsUnit(uint32_t place) { return (place & kUnitBit) != 0; }
  static uint32_t UnitOf(uint32_t place) { return (place & ~kUnitBit) >> kPositionBits; }
  uint32_t UnitBlocksMax(const StoreChoice& choice) const;
  uint64_t ExpectedBytes(const Unit& unit) const;
  uint32_t NewUnit();
  void DropPlace(uint32_t place);
  void UnmapState(BlockState& state);
  void AddTransfer(uint64_t offset, uint32_t bytes, std::vector<Transfer>& transfers) const;
  void PlanRanges(uint32_t first, uint32_t count, std::vector<Transfer>& transfers, double& cpu_ns);

  // Adds to ranges_ where the block at `place` is read from, and counts what its unit costs.
  void AddRange(uint32_t place, uint32_t block, uint32_t& last_unit, double& cpu_ns);
  // ranges_, merged as far as the node merges them.
  void MergeRanges(std::vector<Transfer>& transfers);
  void FindLive(uint32_t number);

  // packing (capacity_store.cc)
  void ClearBatch();
  bool PackStatic(uint64_t& bytes, Extent& extent);
  void TakeReferences();
  bool OpenExtent(uint64_t bytes_min);
  void CloseExtent(Extent& extent);
  uint64_t HeaderBytes(uint64_t units, uint64_t directs) const;
  bool Fits(uint64_t bytes, bool raw, bool direct) const;
  void FindDuplicates(double& cpu_ns);
  // Of sampled deduplication: which blocks of the batch it finds, if they are duplicates.
  void FollowRuns(double& cpu_ns);
  void ReadBackRuns(const std::function<bool(uint32_t)>& repeats, double& cpu_ns);
  bool PackUnit(size_t& next, Extent& extent);
  bool PackMoving(Extent& extent);
  void AddCompressCost(uint32_t blocks, double per_mille, uint32_t stored_bytes,
                       Extent& extent) const;

  const CpuCosts cpu_;
  const MetadataCosts metadata_costs_;
  const CodecRatios ratios_;
  const RequestStream& load_;
  const double prefill_per_mille_;
  const int device_count_;
  BlockTable& table_;
  MetadataModel metadata_;
  SegmentSpace space_;
  std::vector<Unit> units_;
  std::vector<uint32_t> free_units_;
  std::vector<Shared> shared_;  // by content
  Usage usage_;
  Counters counters_;

  // The batch under way.
  StoreChoice choice_;
  Stream stream_ = Stream::kStore;
  uint64_t extent_bytes_ = 0;
  std::vector<BatchBlock> batch_;
  std::vector<uint32_t> new_places_;  // by block of the batch
  std::vector<bool> looked_up_;       // by block of the batch: its duplicate would be found
  std::vector<bool> guesses_;         // scratch, by block of the batch
  std::vector<uint32_t> same_as_;     // by block of the batch: the first one with its content
  std::vector<Transfer> read_back_;
  std::vector<uint32_t> uniques_;  // positions to be packed
  size_t next_unique_ = 0;
  bool stored_all_ = true;
  uint32_t batch_number_ = 0;
  uint64_t unit_changes_ = 0;  // records that the commit writes
  uint64_t fingerprint_changes_ = 0;
  std::vector<uint32_t> new_units_;
  std::vector<uint32_t> moving_;  // units
  uint64_t moving_static_bytes_ = 0;
  size_t next_moving_ = 0;
  std::vector<uint32_t> emptied_;  // segments that compaction empties
  std::vector<storage::CompactionCandidate> candidates_;

  // The extent being packed.
  bool extent_open_ = false;
  SegmentSpace::Place place_;
  uint64_t limit_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
  uint64_t extent_units_ = 0;
  uint64_t extent_directs_ = 0;
  uint64_t static_bytes_ = 0;
  std::vector<Packed> packed_;

  struct Range {
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  std::vector<Range> ranges_;  // scratch
};

}  // namespace ebb::twin
