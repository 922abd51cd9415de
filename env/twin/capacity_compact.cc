// CapacityModel's compaction: what a step empties and what it reads for that.
#include <algorithm>

#include "env/twin/capacity_model.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kBlock = storage::kCapacityBlockBytes;

}  // namespace

void CapacityModel::FindLive(uint32_t number) {
  const SegmentSpace::Segment& segment = space_.At(number);
  for (const uint32_t owner : segment.owners) {
    if (IsUnit(owner)) {
      const uint32_t unit = owner & ~kUnitBit;
      // Dead ones may be in use again elsewhere.
      if (units_[unit].live == 0 || space_.SegmentAt(units_[unit].offset) != number) continue;
      moving_.push_back(unit);
      ranges_.push_back({units_[unit].offset, units_[unit].stored_bytes});
      continue;
    }
    const uint32_t place = table_[owner].capacity;
    if (place == 0 || IsUnit(place) || place == kElsewhere) continue;
    const uint64_t offset = (uint64_t{place} - 1) * kBlock;
    if (space_.SegmentAt(offset) != number) continue;
    batch_.push_back({.block = owner});
    ranges_.push_back({offset, kBlock});
  }
  if (segment.static_bytes == 0) return;
  moving_static_bytes_ += segment.static_bytes;
  const uint64_t device = space_.DeviceOf(number);
  const uint64_t in_device =
      number - device * (space_.total_segments() / static_cast<uint64_t>(device_count_));
  ranges_.push_back({device * space_.device_bytes() +
                         space_.layout().SegmentOffset(static_cast<uint32_t>(in_device)),
                     segment.static_bytes});
}

bool CapacityModel::BeginCompaction(bool urgent, std::vector<Transfer>& reads) {
  const std::vector<size_t> chosen = space_.ChooseCompaction(urgent, candidates_);
  if (chosen.empty()) return false;
  ClearBatch();
  batch_.clear();
  ranges_.clear();
  stream_ = Stream::kCompaction;
  choice_ = {};
  extent_bytes_ = storage::kExtentBytesMax;
  for (const size_t i : chosen) {
    emptied_.push_back(space_.GlobalSegment(candidates_[i]));
    FindLive(emptied_.back());
  }
  // A block may have been written to a segment more than once, and a unit's number be used again.
  std::sort(batch_.begin(), batch_.end(),
            [](const BatchBlock& a, const BatchBlock& b) { return a.block < b.block; });
  batch_.erase(
      std::unique(batch_.begin(), batch_.end(),
                  [](const BatchBlock& a, const BatchBlock& b) { return a.block == b.block; }),
      batch_.end());
  std::sort(moving_.begin(), moving_.end());
  moving_.erase(std::unique(moving_.begin(), moving_.end()), moving_.end());
  new_places_.assign(batch_.size(), 0);
  for (uint32_t i = 0; i < batch_.size(); ++i) uniques_.push_back(i);
  MergeRanges(reads);
  return true;
}

}  // namespace ebb::twin
