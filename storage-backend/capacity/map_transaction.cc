#include "storage-backend/capacity/map_transaction.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace ebb::storage {

MapTransaction::MapTransaction(MetadataStore& metadata, BlockMap& map, UnitCache& cache,
                               SegmentTable& segments, const TotalsRecord& totals)
    : metadata_(metadata), map_(map), cache_(cache), segments_(segments), totals_(totals) {}

absl::StatusOr<std::vector<MapEntry>> MapTransaction::LoadBlocks(std::span<const uint64_t> blocks) {
  std::vector<MapEntry> entries(blocks.size());
  EBB_RETURN_IF_ERROR(map_.Hold(blocks, entries));
  std::vector<uint64_t> units;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (entries[i].is_unit()) {
      units.push_back(entries[i].ref().unit);
    } else if (entries[i].is_direct() &&
               !segments_.IsWritten(entries[i].device(), entries[i].device_offset(),
                                    kCapacityBlockBytes)) {
      return absl::DataLossError(absl::StrCat(
          "metadata: block ", blocks[i], " is said to be at offset ", entries[i].device_offset(),
          " of device ", static_cast<int>(entries[i].device()), ", where no segment in use is"));
    }
  }
  if (!units.empty()) EBB_RETURN_IF_ERROR(LoadUnits(std::move(units)));
  return entries;
}

absl::Status MapTransaction::LoadUnits(std::vector<uint64_t> units) {
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  std::erase_if(units, [&](uint64_t unit) { return units_.contains(unit); });
  const auto add = [&](uint64_t unit, UnitRecord record) {
    Working working;
    working.existed = true;
    working.segment = segments_.SegmentAt(record.device, record.offset);
    working.segment_before = working.segment;
    working.live_bytes_before = record.LiveBytes();
    working.expected_bytes_before = record.ExpectedBytes();
    working.live_data_before = record.LiveDataBytes();
    working.live_mask_before = record.LiveMask();
    working.now = std::move(record);
    units_.emplace(unit, std::move(working));
  };
  std::vector<uint64_t> missing;
  std::vector<std::string> keys;
  for (const uint64_t unit : units) {
    if (std::optional<UnitRecord> record = cache_.Get(unit); record.has_value()) {
      add(unit, *std::move(record));
    } else {
      missing.push_back(unit);
      keys.push_back(UnitKey(unit));
    }
  }
  EBB_ASSIGN_OR_RETURN(const auto values, metadata_.MultiGet(Table::kUnits, keys));
  for (size_t i = 0; i < missing.size(); ++i) {
    if (!values[i].has_value()) continue;
    EBB_ASSIGN_OR_RETURN(UnitRecord record, DecodeUnit(missing[i], *values[i]));
    EBB_RETURN_IF_ERROR(segments_.CheckPlace(missing[i], record));
    add(missing[i], std::move(record));
  }
  return absl::OkStatus();
}

const UnitRecord* MapTransaction::Unit(uint64_t unit) const {
  const auto found = units_.find(unit);
  return found == units_.end() ? nullptr : &found->second.now;
}

uint64_t MapTransaction::CreateUnit(UnitRecord record, std::vector<BlockFingerprint> fingerprints) {
  EBB_CHECK(fingerprints.empty() || fingerprints.back().index < record.blocks.size());
  Working working;
  working.now = std::move(record);
  working.now.fingerprinted = !fingerprints.empty();
  working.changed = true;
  working.new_fingerprints = std::move(fingerprints);
  const uint64_t unit = totals_.next_unit++;
  units_.emplace(unit, std::move(working));
  return unit;
}

void MapTransaction::PlaceUnit(uint64_t unit, SegmentId segment, uint64_t device_offset,
                               uint32_t stored_bytes, uint32_t stored_mask, Compression codec) {
  Working& working = units_.at(unit);
  working.changed = true;
  working.segment = segment;
  working.now.device = segment.device;
  working.now.offset = device_offset;
  working.now.stored_bytes = stored_bytes;
  working.now.stored_mask = stored_mask;
  working.now.codec = codec;
}

void MapTransaction::AddExtent(const ExtentPlace& place, ExtentContent content) {
  std::sort(content.units.begin(), content.units.end());
  extents_.Put(Table::kExtents, ExtentKey(place.id, place.offset_in_segment),
               EncodeExtent(place.id, place.offset_in_segment, content));
}

absl::StatusOr<MapTransaction::Working*> MapTransaction::Find(const BlockRef& ref) {
  const auto found = units_.find(ref.unit);
  if (found == units_.end() || ref.index >= found->second.now.blocks.size()) {
    return absl::DataLossError(absl::StrCat("metadata: block ", static_cast<int>(ref.index),
                                            " of unit ", ref.unit, " is referred to but missing"));
  }
  return &found->second;
}

absl::Status MapTransaction::AddReference(const BlockRef& ref) {
  EBB_ASSIGN_OR_RETURN(Working* const working, Find(ref));
  UnitRecord::Block& block = working->now.blocks[ref.index];
  EBB_CHECK(block.references != UINT32_MAX);
  ++block.references;
  working->changed = true;
  return absl::OkStatus();
}

absl::Status MapTransaction::ReleaseReferences() {
  for (const BlockRef& ref : released_) {
    EBB_ASSIGN_OR_RETURN(Working* const working, Find(ref));
    UnitRecord::Block& block = working->now.blocks[ref.index];
    if (block.references == 0) {
      return absl::DataLossError(absl::StrCat("metadata: block ", static_cast<int>(ref.index),
                                              " of unit ", ref.unit,
                                              " has more users than references"));
    }
    --block.references;
    working->changed = true;
  }
  released_.clear();
  return absl::OkStatus();
}

void MapTransaction::CountDirect(const MapEntry& entry, int sign) {
  const int64_t bytes = sign * static_cast<int64_t>(kDirectLiveBytes);
  segments_.AddLive(segments_.SegmentAt(entry.device(), entry.device_offset()), bytes, bytes);
  totals_.unique_blocks += static_cast<uint64_t>(sign);
  totals_.stored_bytes += static_cast<uint64_t>(sign * static_cast<int64_t>(kCapacityBlockBytes));
}

absl::Status MapTransaction::Point(uint64_t block, const MapEntry& old, const MapEntry& entry) {
  if (old == entry) return absl::OkStatus();
  if (entry.is_unit()) EBB_RETURN_IF_ERROR(AddReference(entry.ref()));
  if (entry.is_direct()) CountDirect(entry, 1);
  if (old.is_unit()) released_.push_back(old.ref());
  if (old.is_direct()) CountDirect(old, -1);
  if (entry.mapped() && !old.mapped()) ++totals_.mapped_blocks;
  if (!entry.mapped() && old.mapped()) --totals_.mapped_blocks;
  EBB_CHECK(changes_.empty() || changes_.back().block < block);
  changes_.push_back({block, entry});
  return absl::OkStatus();
}

absl::Status MapTransaction::DropDeadFingerprints(MetadataBatch& batch) {
  std::vector<uint64_t> ids;
  std::vector<std::string> keys;
  for (const auto& [unit, working] : units_) {
    const uint32_t died = working.live_mask_before & ~working.now.LiveMask();
    if (!working.now.fingerprinted || died == 0) continue;
    ids.push_back(unit);
    keys.push_back(UnitFingerprintsKey(unit));
  }
  if (ids.empty()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const auto values, metadata_.MultiGet(Table::kUnits, keys));
  for (size_t i = 0; i < ids.size(); ++i) {
    const Working& working = units_.at(ids[i]);
    if (!values[i].has_value()) {
      return absl::DataLossError(
          absl::StrCat("metadata: the fingerprints of unit ", ids[i], " are missing"));
    }
    EBB_ASSIGN_OR_RETURN(const auto fingerprints, DecodeUnitFingerprints(ids[i], *values[i]));
    if (fingerprints.back().index >= working.now.blocks.size()) {
      return absl::DataLossError(
          absl::StrCat("metadata: unit ", ids[i], " has fingerprints of blocks that it has not"));
    }
    const uint32_t died = working.live_mask_before & ~working.now.LiveMask();
    for (const BlockFingerprint& block : fingerprints) {
      if ((died >> block.index & 1) == 0) continue;
      batch.Delete(Table::kFingerprints, FingerprintKey(block.fingerprint));
    }
  }
  return absl::OkStatus();
}

void MapTransaction::CountSegments(const Working& working) {
  if (working.existed) {
    segments_.AddLive(working.segment_before, -static_cast<int64_t>(working.live_bytes_before),
                      -static_cast<int64_t>(working.expected_bytes_before));
  }
  if (working.now.LiveBlocks() == 0) return;
  segments_.AddLive(working.segment, static_cast<int64_t>(working.now.LiveBytes()),
                    static_cast<int64_t>(working.now.ExpectedBytes()));
}

absl::Status MapTransaction::WriteUnits(MetadataBatch& batch) {
  // In key order: the same batch for the same change, and neighbours meet in the memtable.
  std::vector<uint64_t> changed;
  for (const auto& [unit, working] : units_) {
    if (working.changed) changed.push_back(unit);
  }
  std::sort(changed.begin(), changed.end());
  for (const uint64_t unit : changed) {
    const Working& working = units_.at(unit);
    const UnitRecord& now = working.now;
    CountSegments(working);
    totals_.stored_bytes += now.LiveDataBytes();
    totals_.stored_bytes -= working.live_data_before;
    totals_.unique_blocks += now.LiveBlocks();
    totals_.unique_blocks -= static_cast<uint64_t>(std::popcount(working.live_mask_before));
    if (now.LiveBlocks() == 0) {
      batch.Delete(Table::kUnits, UnitKey(unit));
      if (now.fingerprinted) batch.Delete(Table::kUnits, UnitFingerprintsKey(unit));
      continue;
    }
    batch.Put(Table::kUnits, UnitKey(unit), EncodeUnit(unit, now));
    if (working.new_fingerprints.empty()) continue;
    batch.Put(Table::kUnits, UnitFingerprintsKey(unit),
              EncodeUnitFingerprints(unit, working.new_fingerprints));
    for (const BlockFingerprint& block : working.new_fingerprints) {
      batch.Put(Table::kFingerprints, FingerprintKey(block.fingerprint),
                EncodeFingerprintEntry(block.fingerprint, {unit, block.index}));
    }
  }
  return absl::OkStatus();
}

absl::Status MapTransaction::DropExtents(const std::vector<SegmentId>& freed,
                                         MetadataBatch& batch) {
  for (const SegmentId id : freed) {
    EBB_RETURN_IF_ERROR(metadata_.Scan(Table::kExtents, SegmentKey(id),
                                       SegmentKey({id.device, id.segment + 1}),
                                       [&](std::string_view key, std::string_view) {
                                         batch.Delete(Table::kExtents, key);
                                         return true;
                                       }));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SegmentId>> MapTransaction::Prepare(MetadataBatch& batch) {
  batch = std::move(extents_);
  EBB_RETURN_IF_ERROR(ReleaseReferences());
  // Deletions first: a block may die in the batch that stores the same content anew.
  EBB_RETURN_IF_ERROR(DropDeadFingerprints(batch));
  EBB_RETURN_IF_ERROR(WriteUnits(batch));
  std::vector<SegmentId> freed = segments_.Finish(segment_changes_);
  EBB_RETURN_IF_ERROR(DropExtents(freed, batch));
  return freed;
}

}  // namespace ebb::storage
