#include "env/twin/capacity_model.h"

#include <algorithm>

#include "base/check.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kBlock = storage::kCapacityBlockBytes;
// As range_reader.cc merges.
constexpr uint64_t kGapBytesMax = 16 << 10;
constexpr uint64_t kTransferBytesMax = 1 << 20;

uint64_t Floor(uint64_t offset) { return offset / kBlock * kBlock; }
uint64_t Ceil(uint64_t offset) { return (offset + kBlock - 1) / kBlock * kBlock; }

}  // namespace

CapacityModel::CapacityModel(const NodeModel& node, const RequestStream& load, double divisor,
                             BlockTable& table)
    : cpu_(node.cpu),
      metadata_costs_(node.metadata),
      ratios_(node.codec),
      load_(load),
      prefill_per_mille_(node.prefill_compressed_per_mille),
      device_count_(node.capacity_count),
      table_(table),
      metadata_(node.metadata, load.page_count(), divisor),
      space_(node.capacity_bytes, node.capacity_count),
      shared_(load.content_count() + 1) {}

uint32_t CapacityModel::UnitBlocksMax(const StoreChoice& choice) const {
  return std::clamp<uint32_t>(choice.unit_bytes / kBlock, 1, space_.layout().UnitBlocksMax());
}

uint64_t CapacityModel::ExpectedBytes(const Unit& unit) const {
  if (unit.live == 0) return 0;
  const uint64_t share = uint64_t{unit.stored_bytes} * unit.live / unit.blocks;
  return (share + storage::kStoredUnitBytes - 1) / storage::kStoredUnitBytes *
             storage::kStoredUnitBytes +
         storage::kUnitEntryBytes;
}

uint32_t CapacityModel::NewUnit() {
  if (!free_units_.empty()) {
    const uint32_t unit = free_units_.back();
    free_units_.pop_back();
    return unit;
  }
  EBB_CHECK(units_.size() < (uint64_t{1} << (31 - kPositionBits)) - 1);
  units_.emplace_back();
  return static_cast<uint32_t>(units_.size() - 1);
}

void CapacityModel::DropPlace(uint32_t place) {
  --usage_.unique_blocks;
  if (!IsUnit(place)) {
    space_.Drop(space_.SegmentAt((uint64_t{place} - 1) * kBlock), storage::kDirectLiveBytes,
                /*gone=*/true);
    return;
  }
  const uint32_t number = UnitOf(place);
  Unit& unit = units_[number];
  ++unit_changes_;
  const uint64_t before = ExpectedBytes(unit);
  --unit.live;
  const bool gone = unit.live == 0;
  space_.Drop(space_.SegmentAt(unit.offset), before - ExpectedBytes(unit), gone);
  if (gone) free_units_.push_back(number);
}

void CapacityModel::UnmapState(BlockState& state) {
  const uint32_t place = state.capacity;
  if (place == 0) return;
  --usage_.logical_blocks;
  state.capacity = 0;
  if (place == kElsewhere) return;
  if (state.content != 0) {
    Shared& shared = shared_[state.content];
    state.content = 0;
    ++unit_changes_;  // the reference count is in the unit's record
    if (--shared.references > 0) return;
    shared.place = 0;
    ++fingerprint_changes_;
  }
  DropPlace(place);
}

void CapacityModel::Unmap(uint32_t block) {
  if (table_[block].capacity == 0) return;
  UnmapState(table_[block]);
  metadata_.ChangeBlock(block >> kPageShift);
}

void CapacityModel::AddTransfer(uint64_t offset, uint32_t bytes,
                                std::vector<Transfer>& transfers) const {
  const uint64_t device = offset / space_.device_bytes();
  transfers.push_back({.device = static_cast<uint32_t>(device),
                       .bytes = bytes,
                       .offset = offset - device * space_.device_bytes()});
}

void CapacityModel::PlanRead(uint32_t first, uint32_t count, std::vector<Transfer>& transfers,
                             double& cpu_ns) {
  for (uint32_t page = first >> kPageShift; page <= (first + count - 1) >> kPageShift; ++page) {
    if (!metadata_.TouchPage(page)) cpu_ns += cpu_.map_page_miss;
  }
  // Blocks without a place at either end are left out, as the node does.
  while (count > 0 && table_[first].capacity == 0) ++first, --count;
  while (count > 0 && table_[first + count - 1].capacity == 0) --count;
  if (count == 0) return;
  bool one_run = true;
  const uint32_t place = table_[first].capacity;
  for (uint32_t i = 0; i < count && one_run; ++i) {
    const uint32_t at = table_[first + i].capacity;
    one_run = at != 0 && !IsUnit(at) && at != kElsewhere && at == place + i;
  }
  if (one_run) {
    AddTransfer((uint64_t{place} - 1) * kBlock, count * static_cast<uint32_t>(kBlock), transfers);
    return;
  }
  PlanRanges(first, count, transfers, cpu_ns);
}

void CapacityModel::PlanRanges(uint32_t first, uint32_t count, std::vector<Transfer>& transfers,
                               double& cpu_ns) {
  ranges_.clear();
  uint32_t last_unit = kNoUnit;
  for (uint32_t block = first; block < first + count; ++block) {
    const uint32_t place = table_[block].capacity;
    if (place != 0) AddRange(place, block, last_unit, cpu_ns);
  }
  MergeRanges(transfers);
}

void CapacityModel::AddRange(uint32_t place, uint32_t block, uint32_t& last_unit, double& cpu_ns) {
  if (place == kElsewhere) {
    // Some block that is not simulated: anywhere.
    const uint64_t all = space_.total_segments() * space_.layout().segment_bytes / kBlock;
    ranges_.push_back({(uint64_t{block} * 0x9e3779b97f4a7c15 >> 20) % all * kBlock, kBlock});
    return;
  }
  if (!IsUnit(place)) {
    ranges_.push_back({(uint64_t{place} - 1) * kBlock, kBlock});
    return;
  }
  const uint32_t number = UnitOf(place);
  const Unit& unit = units_[number];
  const uint64_t position = place & ((1U << kPositionBits) - 1);
  const bool same = number == last_unit;
  last_unit = number;
  if (!same && !metadata_.TouchUnit(number)) cpu_ns += cpu_.unit_miss;
  if (unit.codec == storage::Compression::kOff) {
    ranges_.push_back(
        {unit.offset + std::min<uint64_t>(position, unit.blocks - 1U) * kBlock, kBlock});
  } else if (!same) {
    ranges_.push_back({unit.offset, unit.stored_bytes});
    cpu_ns += cpu_.decompress_byte[static_cast<size_t>(unit.codec)] *
              static_cast<double>(unit.blocks * kBlock);
  }
}

void CapacityModel::MergeRanges(std::vector<Transfer>& transfers) {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < ranges_.size();) {
    const uint64_t start = Floor(ranges_[i].offset);
    uint64_t end = Ceil(ranges_[i].offset + ranges_[i].bytes);
    const uint64_t device = start / space_.device_bytes();
    for (++i; i < ranges_.size() && ranges_[i].offset / space_.device_bytes() == device &&
              Floor(ranges_[i].offset) <= end + kGapBytesMax &&
              Ceil(ranges_[i].offset + ranges_[i].bytes) - start <= kTransferBytesMax;
         ++i) {
      end = std::max(end, Ceil(ranges_[i].offset + ranges_[i].bytes));
    }
    AddTransfer(start, static_cast<uint32_t>(end - start), transfers);
  }
}

}  // namespace ebb::twin
