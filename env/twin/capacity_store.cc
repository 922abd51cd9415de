// CapacityModel's batches: from blocks to extents and a new map.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "env/twin/capacity_model.h"
#include "env/twin/codec_model.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kBlock = storage::kCapacityBlockBytes;
constexpr uint64_t kExtentBytesMin = 256 << 10;
constexpr uint64_t kUnitRecordBytes = 290;
constexpr uint64_t kFingerprintBytes = 50;
// As tier_dedup.cc: shorter runs of guesses are not worth a read.
constexpr size_t kReadBackBlocksMin = 4;
constexpr size_t kReadBackBlocksMax = 256;  // at once
constexpr double kCompareNs = 400;          // a block with what was read back
constexpr double kMoveByteNs = 0.5;         // verify and copy what compaction moves

uint64_t RoundUp(uint64_t bytes, uint64_t grain) { return (bytes + grain - 1) / grain * grain; }

}  // namespace

uint64_t CapacityModel::HeaderBytes(uint64_t units, uint64_t directs) const {
  return RoundUp(storage::kExtentHeaderFixedBytes +
                     (extent_units_ + units) * storage::kUnitEntryBytes +
                     (extent_directs_ + directs) * storage::kDirectEntryBytes,
                 kBlock);
}

bool CapacityModel::Fits(uint64_t bytes, bool raw, bool direct) const {
  const uint64_t start = raw ? RoundUp(payload_bytes_, kBlock) : payload_bytes_;
  return HeaderBytes(direct ? 0 : 1, direct ? 1 : 0) + RoundUp(start + bytes, kBlock) <=
         limit_bytes_;
}

bool CapacityModel::OpenExtent(uint64_t bytes_min) {
  const auto place = space_.NextExtent(stream_, bytes_min);
  if (!place.has_value()) return false;
  place_ = *place;
  limit_bytes_ = std::min(place_.limit_bytes, std::max(extent_bytes_, bytes_min));
  payload_bytes_ = extent_units_ = extent_directs_ = static_bytes_ = 0;
  packed_.clear();
  extent_open_ = true;
  return true;
}

void CapacityModel::CloseExtent(Extent& extent) {
  const uint64_t header = HeaderBytes(0, 0);
  const uint64_t bytes = header + RoundUp(payload_bytes_, kBlock);
  SegmentSpace::Segment& segment = space_.At(place_.segment);
  for (const Packed& one : packed_) {
    const uint64_t offset = place_.offset + header + one.payload_offset;
    if (one.unit != kNoUnit) {
      units_[one.unit].offset = offset;
      segment.owners.push_back(one.unit | kUnitBit);
      space_.AddLive(place_.segment, ExpectedBytes(units_[one.unit]));
    } else {
      new_places_[one.item] = static_cast<uint32_t>(offset / kBlock) + 1;
      segment.owners.push_back(batch_[one.item].block);
      space_.AddLive(place_.segment, storage::kDirectLiveBytes);
    }
  }
  if (static_bytes_ > 0) space_.AddStatic(place_.segment, static_bytes_);
  space_.Use(place_.segment, bytes);
  const uint64_t device = place_.offset / space_.device_bytes();
  extent.write = {.device = static_cast<uint32_t>(device),
                  .bytes = static_cast<uint32_t>(bytes),
                  .offset = place_.offset - device * space_.device_bytes()};
  counters_.written_bytes += bytes;
  extent_open_ = false;
}

// All blocks are looked up, or an eighth of them and what lies beside one that is found, as long as
// it repeats as well: such guesses are read back and compared, where a run of them is worth a read.
void CapacityModel::FollowRuns(double& cpu_ns) {
  const double lookup_ns = cpu_.fingerprint_block + cpu_.fingerprint_lookup;
  if (choice_.dedup == storage::Dedup::kOn) {
    looked_up_.assign(batch_.size(), true);
    cpu_ns += lookup_ns * static_cast<double>(batch_.size());
    return;
  }
  const auto repeats = [&](uint32_t i) {
    const uint32_t content = batch_[i].content & ~RequestStream::kSeenOutside;
    return content != 0 && (shared_[content].place != 0 || content != batch_[i].content);
  };
  // Equal content is looked up alike, wherever it was seen first.
  const auto sampled = [&](uint32_t i) {
    const uint32_t content = batch_[i].content & ~RequestStream::kSeenOutside;
    const uint32_t key = content != 0 ? content : batch_[i].block;
    return (key * 0x9e3779b1U >> 29) == 0;
  };
  looked_up_.assign(batch_.size(), false);
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    if (!sampled(i)) continue;
    looked_up_[i] = true;
    cpu_ns += lookup_ns;
  }
  guesses_.assign(batch_.size(), false);
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    if (!looked_up_[i] || !repeats(i)) continue;
    const auto known = [&](uint32_t at) { return guesses_[at] || (looked_up_[at] && repeats(at)); };
    for (uint32_t at = i; at > 0 && batch_[at - 1].block + 1 == batch_[at].block &&
                          !known(at - 1) && repeats(at - 1);
         --at) {
      guesses_[at - 1] = true;
    }
    for (uint32_t at = i + 1; at < batch_.size() && batch_[at].block == batch_[at - 1].block + 1 &&
                              !known(at) && repeats(at);
         ++at) {
      guesses_[at] = true;
    }
  }
  ReadBackRuns(repeats, cpu_ns);
}

void CapacityModel::ReadBackRuns(const std::function<bool(uint32_t)>& repeats, double& cpu_ns) {
  std::vector<uint32_t> run;  // its guesses: what was looked up in between is known
  const auto size = static_cast<uint32_t>(batch_.size());
  for (uint32_t i = 0; i <= size; ++i) {
    if (i < size && guesses_[i]) run.push_back(i);
    const bool goes_on = i < size && (guesses_[i] || (looked_up_[i] && repeats(i)));
    if (goes_on && run.size() < kReadBackBlocksMax) continue;
    if (run.size() >= kReadBackBlocksMin) {
      ranges_.clear();
      uint32_t last_unit = kNoUnit;
      for (const uint32_t at : run) {
        looked_up_[at] = true;
        cpu_ns += kCompareNs;
        const uint32_t place = shared_[batch_[at].content & ~RequestStream::kSeenOutside].place;
        if (place != 0) AddRange(place, batch_[at].block, last_unit, cpu_ns);
      }
      MergeRanges(read_back_);
    }
    run.clear();
  }
}

// Blocks of the batch that are equal to each other are told in memory, whatever was looked up.
void CapacityModel::FindDuplicates(double& cpu_ns) {
  FollowRuns(cpu_ns);
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    const uint32_t content = batch_[i].content & ~RequestStream::kSeenOutside;
    if (content == 0) continue;
    Shared& shared = shared_[content];
    if (looked_up_[i] && shared.place != 0) {
      new_places_[i] = shared.place;
      ++counters_.deduplicated_blocks;
    } else if (looked_up_[i] && (batch_[i].content & RequestStream::kSeenOutside) != 0) {
      new_places_[i] = kElsewhere;
      ++counters_.deduplicated_blocks;
    } else if (shared.place == 0 && shared.batch == batch_number_) {
      same_as_[i] = shared.first;  // its place is known when that one has been packed
      ++counters_.deduplicated_blocks;
    } else {
      shared.batch = batch_number_;
      shared.first = i;
    }
  }
}

double CapacityModel::BeginBatch(std::vector<BatchBlock>& blocks, const StoreChoice& choice) {
  batch_.swap(blocks);
  choice_ = choice;
  stream_ = Stream::kStore;
  ++batch_number_;
  const uint64_t streams = static_cast<uint64_t>(std::max(choice.parallelism, 1) * device_count_);
  extent_bytes_ = std::clamp(batch_.size() * kBlock / streams / kBlock * kBlock, kExtentBytesMin,
                             storage::kExtentBytesMax);
  new_places_.assign(batch_.size(), 0);
  same_as_.resize(batch_.size());
  std::iota(same_as_.begin(), same_as_.end(), 0);
  read_back_.clear();
  ClearBatch();
  double cpu_ns = 0;
  uint32_t last_page = UINT32_MAX;
  for (const BatchBlock& one : batch_) {
    if (const uint32_t page = one.block >> kPageShift; page != last_page) {
      if (!metadata_.TouchPage(page)) cpu_ns += cpu_.map_page_miss;
      last_page = page;
    }
    // Blocks that are in a unit now: its record is loaded, to be changed.
    const uint32_t old = table_[one.block].capacity;
    if (IsUnit(old) && !metadata_.TouchUnit(UnitOf(old))) cpu_ns += cpu_.unit_miss;
  }
  if (choice.deduplicates()) FindDuplicates(cpu_ns);
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    if (new_places_[i] == 0 && same_as_[i] == i) uniques_.push_back(i);
  }
  counters_.raw_bytes += uniques_.size() * kBlock;
  return cpu_ns;
}

void CapacityModel::AddCompressCost(uint32_t blocks, double per_mille, uint32_t stored_bytes,
                                    Extent& extent) const {
  const auto codec = static_cast<size_t>(choice_.compression);
  // Between data that packs well and random data, by what it saves.
  const double random = std::clamp((per_mille - 800) / 200, 0.0, 1.0);
  const double byte_ns =
      (1 - random) * cpu_.compress_byte[codec] + random * cpu_.compress_byte_random[codec];
  extent.parallel_ns += byte_ns * static_cast<double>(blocks * kBlock);
  extent.serial_ns += 0.1 * static_cast<double>(stored_bytes);  // copied into the extent
}

// Packs what begins at `next` of the uniques: one unit, or as many direct blocks as a unit has.
// False when it does not fit the open extent any more.
bool CapacityModel::PackUnit(size_t& next, Extent& extent) {
  const auto blocks =
      static_cast<uint32_t>(std::min<size_t>(UnitBlocksMax(choice_), uniques_.size() - next));
  double per_mille = 0;
  for (uint32_t i = 0; i < blocks; ++i) {
    per_mille += batch_[uniques_[next + i]].compressed_per_mille;
  }
  per_mille /= blocks;
  const uint32_t stored = StoredBytes(ratios_, choice_.compression, blocks * kBlock, per_mille);
  const bool direct = stored == 0 && !choice_.deduplicates();
  const uint32_t wanted = stored != 0 ? stored : blocks * static_cast<uint32_t>(kBlock);
  if (!extent_open_ && !OpenExtent(kBlock + RoundUp(direct ? kBlock : wanted, kBlock)))
    return false;
  if (direct) {
    uint32_t taken = 0;
    for (; taken < blocks && Fits(kBlock, true, true); ++taken, ++next) {
      payload_bytes_ = RoundUp(payload_bytes_, kBlock);
      packed_.push_back(
          {.item = uniques_[next], .payload_offset = static_cast<uint32_t>(payload_bytes_)});
      payload_bytes_ += kBlock;
      ++extent_directs_;
    }
    if (choice_.compression != storage::Compression::kOff)
      AddCompressCost(taken, per_mille, 0, extent);
    extent.serial_ns += cpu_.destage_block * taken;
    counters_.stored_bytes += taken * kBlock;
    return taken == blocks;
  }
  if (!Fits(wanted, stored == 0, false)) return false;
  if (stored == 0) payload_bytes_ = RoundUp(payload_bytes_, kBlock);
  const uint32_t number = NewUnit();
  units_[number] = {.stored_bytes = wanted,
                    .blocks = static_cast<uint8_t>(blocks),
                    .live = static_cast<uint8_t>(blocks),
                    .codec = stored == 0 ? storage::Compression::kOff : choice_.compression};
  packed_.push_back({.unit = number, .payload_offset = static_cast<uint32_t>(payload_bytes_)});
  new_units_.push_back(number);
  payload_bytes_ += RoundUp(wanted, storage::kStoredUnitBytes);
  ++extent_units_;
  for (uint32_t i = 0; i < blocks; ++i) {
    new_places_[uniques_[next + i]] = kUnitBit | (number << kPositionBits) | i;
  }
  next += blocks;
  extent.serial_ns += cpu_.destage_block * blocks;
  if (choice_.compression != storage::Compression::kOff) {
    AddCompressCost(blocks, per_mille, stored, extent);
  }
  counters_.stored_bytes += wanted;
  return true;
}

bool CapacityModel::PackMoving(Extent& extent) {
  Unit& unit = units_[moving_[next_moving_]];
  // Blocks that nobody refers to are left behind.
  const auto bytes = static_cast<uint32_t>(ExpectedBytes(unit) - storage::kUnitEntryBytes);
  const bool raw = unit.codec == storage::Compression::kOff;
  if (!extent_open_ && !OpenExtent(kBlock + RoundUp(bytes, kBlock))) return false;
  if (!Fits(bytes, raw, false)) return false;
  space_.Drop(space_.SegmentAt(unit.offset), ExpectedBytes(unit), /*gone=*/true);
  unit.stored_bytes = bytes;
  unit.blocks = unit.live;
  if (raw) payload_bytes_ = RoundUp(payload_bytes_, kBlock);
  packed_.push_back(
      {.unit = moving_[next_moving_], .payload_offset = static_cast<uint32_t>(payload_bytes_)});
  payload_bytes_ += RoundUp(bytes, storage::kStoredUnitBytes);
  ++extent_units_;
  ++unit_changes_;
  extent.serial_ns += kMoveByteNs * bytes;
  ++next_moving_;
  return true;
}

// Static bytes have extents of their own.
bool CapacityModel::PackStatic(uint64_t& bytes, Extent& extent) {
  if (!OpenExtent(2 * kBlock)) return false;
  static_bytes_ = std::min(bytes, limit_bytes_ - kBlock);
  payload_bytes_ = static_bytes_;
  bytes -= static_bytes_;
  extent.serial_ns += kMoveByteNs * static_cast<double>(static_bytes_);
  return true;
}

bool CapacityModel::NextExtent(Extent& extent, bool& full) {
  extent = {};
  full = false;
  while (next_unique_ < uniques_.size() && PackUnit(next_unique_, extent)) {
  }
  while (next_unique_ == uniques_.size() && next_moving_ < moving_.size() && PackMoving(extent)) {
  }
  if (!extent_open_ && moving_static_bytes_ > 0) PackStatic(moving_static_bytes_, extent);
  if (extent_open_) {
    CloseExtent(extent);
    return true;
  }
  full =
      next_unique_ < uniques_.size() || next_moving_ < moving_.size() || moving_static_bytes_ > 0;
  stored_all_ = !full;
  return false;
}

void CapacityModel::ClearBatch() {
  uniques_.clear();
  new_units_.clear();
  moving_.clear();
  emptied_.clear();
  next_moving_ = next_unique_ = 0;
  unit_changes_ = fingerprint_changes_ = 0;
  moving_static_bytes_ = 0;
}

// Where each block of the batch is from now on, and what it shares there. All references are taken
// before any is given up: a block that the batch overwrites may be the last that holds what another
// one shares.
void CapacityModel::TakeReferences() {
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    uint32_t content =
        choice_.deduplicates() ? batch_[i].content & ~RequestStream::kSeenOutside : 0;
    uint32_t& place = new_places_[i];
    if (place == 0) place = new_places_[same_as_[i]];
    if (place == 0) continue;  // the devices were full
    // A duplicate that was not found is stored again; the first copy keeps the name.
    const bool known =
        content != 0 && shared_[content].place != 0 && shared_[content].place != place;
    if (known || place == kElsewhere) content = 0;
    batch_[i].content = content;
    if (place == kElsewhere) continue;
    if (content == 0) {
      ++usage_.unique_blocks;
      continue;
    }
    Shared& shared = shared_[content];
    if (shared.place == 0) ++usage_.unique_blocks;
    ++unit_changes_;
    shared.place = place;
    ++shared.references;
  }
}

CapacityModel::CommitCost CapacityModel::CommitBatch() {
  const bool moves = stream_ == Stream::kCompaction;
  if (!moves) TakeReferences();
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    if (new_places_[i] == 0) continue;
    BlockState& state = table_[batch_[i].block];
    metadata_.ChangeBlock(batch_[i].block >> kPageShift);
    if (moves) {
      space_.Drop(space_.SegmentAt((uint64_t{state.capacity} - 1) * kBlock),
                  storage::kDirectLiveBytes, /*gone=*/true);
    } else {
      UnmapState(state);
      state.content = batch_[i].content;
      ++usage_.logical_blocks;
    }
    state.capacity = new_places_[i];
  }
  for (const uint32_t segment : emptied_) space_.DropStatic(segment);
  unit_changes_ += new_units_.size();
  for (const uint32_t unit : new_units_) metadata_.TouchUnit(unit);
  if (choice_.deduplicates() && !moves) {
    const uint64_t part = choice_.dedup == storage::Dedup::kSampled ? 8 : 1;
    fingerprint_changes_ += uniques_.size() / part;
  }
  const CommitCost cost{
      .cpu_ns = cpu_.unit_record * static_cast<double>(unit_changes_) +
                0.5 * cpu_.fingerprint_lookup * static_cast<double>(fingerprint_changes_),
      .metadata_bytes = metadata_.Commit(unit_changes_ * kUnitRecordBytes +
                                         fingerprint_changes_ * kFingerprintBytes)};
  batch_.clear();
  return cost;
}

bool CapacityModel::Prefill(const StoreChoice& choice) {
  std::vector<uint32_t> pages(load_.page_count());
  std::iota(pages.begin(), pages.end(), 0);
  std::sort(pages.begin(), pages.end(),
            [&](uint32_t a, uint32_t b) { return load_.PlaceOfPage(a) < load_.PlaceOfPage(b); });
  const auto unit_bytes = static_cast<uint32_t>(UnitBlocksMax(choice) * kBlock);
  const uint32_t stored = StoredBytes(ratios_, choice.compression, unit_bytes, prefill_per_mille_);
  const double share = stored == 0 ? 1 : static_cast<double>(stored) / unit_bytes;
  Extent extent;
  const auto skip = [&](uint64_t page_count) {
    auto bytes =
        static_cast<uint64_t>(share * static_cast<double>(page_count * kPageBlocks * kBlock));
    while (bytes > 0) {
      if (!PackStatic(bytes, extent)) return false;
      CloseExtent(extent);
    }
    return true;
  };
  std::vector<BatchBlock> blocks;
  uint64_t next_place = 0;
  bool full = false;
  for (const uint32_t page : pages) {
    const uint64_t place = load_.PlaceOfPage(page);
    extent_bytes_ = storage::kExtentBytesMax;
    if (place > next_place && !skip(place - next_place)) return false;
    next_place = place + 1;
    blocks.clear();
    for (uint32_t i = 0; i < kPageBlocks; ++i) {
      blocks.push_back({.block = (page << kPageShift) + i,
                        .compressed_per_mille = static_cast<uint16_t>(prefill_per_mille_)});
    }
    BeginBatch(blocks, choice);
    extent_bytes_ = storage::kExtentBytesMax;
    while (NextExtent(extent, full)) {
    }
    if (full) return false;
    CommitBatch();
  }
  const uint64_t volume_pages = load_.volume_bytes() / (kPageBlocks * kBlock);
  if (volume_pages > next_place && !skip(volume_pages - next_place)) return false;
  counters_ = {};
  return true;
}

}  // namespace ebb::twin
