// Compaction: moves what is alive out of the emptiest segments.
//
// A direct block gets a new place in the map. A unit keeps its number, so neither the map nor the
// fingerprints change. Blocks of it that nobody
// refers to are left behind: a raw unit is written with holes closed (stored_mask says which blocks
// are there), a compressed one is compressed again, or kept as it is when that is not smaller. What
// does not verify stays where it is, so that the damage neither spreads nor hides; its
// segment is not chosen again.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "storage-backend/capacity/range_reader.h"
#include "storage-backend/capacity/tier.h"
#include "storage-backend/capacity/unit_packer.h"
#include "storage-backend/policy/compaction_choice.h"

namespace ebb::storage {
namespace {

// Extents of compaction in flight; it is background work.
constexpr int kParallelism = 2;

}  // namespace

struct Tier::MovingUnit {
  uint64_t number = 0;
  UnitRecord record;
  // What to write, once verified.
  bool damaged = true;
  Compression codec = Compression::kOff;
  uint32_t stored_mask = 0;
  std::vector<std::byte> bytes;
};

struct Tier::MovingBlock {
  uint64_t block = 0;
  MapEntry before;
  MapEntry after;
  bool damaged = true;
};

struct Tier::Moving {
  std::vector<MovingUnit> units;
  std::vector<MovingBlock> blocks;  // ascending once all are found
};

absl::StatusOr<bool> Tier::CompactStep() {
  std::lock_guard lock(change_mutex_);
  EBB_RETURN_IF_ERROR(CheckWritable());
  ReleaseFreed(/*wait=*/false);
  return CompactLocked(/*urgent=*/false);
}

absl::StatusOr<bool> Tier::CompactLocked(bool urgent) {
  std::vector<CompactionCandidate> candidates;
  segments_.ForEachUsed([&](SegmentId id, const SegmentRecord& record) {
    if (record.state != SegmentState::kSealed || segments_.IsDamaged(id)) return;
    candidates.push_back(
        {.device = id.device, .segment = id.segment, .live_bytes = record.expected_bytes});
  });
  const uint64_t reserved =
      CapacityLayout::ReservedSegments(segments_.total_segments(), devices_.size());
  // Segments that wait for readers count as free: they will be.
  const uint64_t free = segments_.free_segments() + freed_.size();
  const std::vector<size_t> chosen = ChooseCompaction(
      {.candidates = candidates,
       .segment_bytes = layout_.segment_bytes,
       .segments_free = free > reserved ? free - reserved : 0,
       .segments_total = segments_.total_segments() - reserved,
       // What surely fits one fresh segment, headers and padding included: near
       // full there is no second one. (Hundreds of tiny units make a header of
       // several blocks.)
       .step_bytes = std::min(layout_.ExtentBytesMax(), layout_.SegmentFillBytes()),
       .urgent_live_bytes_max = urgent ? layout_.SegmentFillBytes() : 0});
  if (chosen.empty()) return false;

  MapTransaction transaction(*metadata_, map_, cache_, segments_, totals_);
  Moving moving;
  for (const size_t i : chosen) {
    EBB_RETURN_IF_ERROR(FindLive(
        {static_cast<uint8_t>(candidates[i].device), candidates[i].segment}, transaction, moving));
  }
  std::sort(moving.blocks.begin(), moving.blocks.end(),
            [](const MovingBlock& a, const MovingBlock& b) { return a.block < b.block; });
  absl::Status status = Move(moving, transaction);
  if (!status.ok()) {
    writer_.Abandon();
    segments_.Rollback();
    return Annotate(status, "compaction");
  }
  for (const MovingUnit& unit : moving.units) {
    if (!unit.damaged) continue;
    segments_.MarkDamaged(segments_.SegmentAt(unit.record.device, unit.record.offset));
  }
  for (const MovingBlock& block : moving.blocks) {
    if (!block.damaged) continue;
    segments_.MarkDamaged(segments_.SegmentAt(block.before.device(), block.before.device_offset()));
  }
  EBB_RETURN_IF_ERROR(CommitChanges(transaction));
  return true;
}

absl::Status Tier::FindLive(SegmentId id, MapTransaction& transaction, Moving& moving) {
  ExtentContent content;
  absl::Status decoded;
  EBB_RETURN_IF_ERROR(metadata_->Scan(Table::kExtents, SegmentKey(id),
                                      SegmentKey({id.device, id.segment + 1}),
                                      [&](std::string_view key, std::string_view value) {
                                        decoded = DecodeExtent(key, value, content);
                                        return decoded.ok();
                                      }));
  EBB_RETURN_IF_ERROR(decoded);
  EBB_RETURN_IF_ERROR(transaction.LoadUnits(content.units));
  for (const uint64_t number : content.units) {
    const UnitRecord* const record = transaction.Unit(number);
    // Dead ones have no record; moved ones are elsewhere.
    if (record == nullptr || segments_.SegmentAt(record->device, record->offset) != id) continue;
    moving.units.push_back({.number = number, .record = *record, .bytes = {}});
  }
  // A block may have been written to the segment more than once.
  std::sort(content.blocks.begin(), content.blocks.end());
  content.blocks.erase(std::unique(content.blocks.begin(), content.blocks.end()),
                       content.blocks.end());
  EBB_ASSIGN_OR_RETURN(const std::vector<MapEntry> entries, transaction.LoadBlocks(content.blocks));
  for (size_t i = 0; i < entries.size(); ++i) {
    const MapEntry& entry = entries[i];
    if (!entry.is_direct() || segments_.SegmentAt(entry.device(), entry.device_offset()) != id) {
      continue;
    }
    moving.blocks.push_back({.block = content.blocks[i], .before = entry, .after = entry});
  }
  return absl::OkStatus();
}

bool Tier::Repack(MovingUnit& moving, std::span<const std::byte> stored) {
  const UnitRecord& record = moving.record;
  const uint32_t live = record.LiveMask();
  std::span<const std::byte> raw = stored;
  if (record.codec != Compression::kOff) {
    const std::span<std::byte> blocks =
        std::span(raw_unit_).first(record.StoredBlocks() * kCapacityBlockBytes);
    if (!Decompress(record.codec, stored, blocks).ok()) return false;
    raw = blocks;
  }
  std::vector<std::byte> kept;
  kept.reserve(record.LiveBlocks() * kCapacityBlockBytes);
  for (uint8_t i = 0; i < record.blocks.size(); ++i) {
    if (((live >> i) & 1) == 0) continue;
    const auto block = raw.subspan(record.Rank(i) * kCapacityBlockBytes, kCapacityBlockBytes);
    if (Crc32c(block) != record.blocks[i].crc32c) return false;
    kept.insert(kept.end(), block.begin(), block.end());
  }
  moving.codec = record.codec;
  moving.stored_mask = live;
  if (record.codec == Compression::kOff) {
    moving.bytes = std::move(kept);
  } else if (live == record.stored_mask) {
    moving.bytes.assign(stored.begin(), stored.end());
  } else if (const size_t bytes = compressor_.Compress(
                 record.codec, kept,
                 std::span(stored_unit_).first(std::min<size_t>(record.stored_bytes, kept.size())));
             bytes != 0) {
    moving.bytes.assign(stored_unit_.begin(), stored_unit_.begin() + static_cast<ptrdiff_t>(bytes));
  } else if (record.PaddedBytes() < kept.size()) {
    moving.bytes.assign(stored.begin(), stored.end());
    moving.stored_mask = record.stored_mask;
  } else {
    moving.codec = Compression::kOff;
    moving.bytes = std::move(kept);
  }
  return true;
}

absl::Status Tier::ReadMoving(Moving& moving) {
  const size_t units = moving.units.size();
  std::vector<ReadRange> ranges;
  for (size_t i = 0; i < units; ++i) {
    const UnitRecord& record = moving.units[i].record;
    if (!moving.units[i].damaged) continue;
    ranges.push_back(
        {.device = record.device, .offset = record.offset, .bytes = record.stored_bytes, .tag = i});
  }
  for (size_t i = 0; i < moving.blocks.size(); ++i) {
    const MovingBlock& block = moving.blocks[i];
    if (!block.damaged) continue;
    ranges.push_back({.device = block.before.device(),
                      .offset = block.before.device_offset(),
                      .bytes = kCapacityBlockBytes,
                      .tag = units + i});
  }
  return ReadRanges(devices_, ranges,
                    [&](const ReadRange& range, absl::StatusOr<std::span<const std::byte>> bytes) {
                      if (!bytes.ok()) return absl::OkStatus();
                      if (range.tag < units) {
                        moving.units[range.tag].damaged = !Repack(moving.units[range.tag], *bytes);
                        return absl::OkStatus();
                      }
                      MovingBlock& block = moving.blocks[range.tag - units];
                      std::byte* const to =
                          moving_blocks_.data() + (range.tag - units) * kCapacityBlockBytes;
                      std::memcpy(to, bytes->data(), kCapacityBlockBytes);
                      block.damaged = Crc32c({to, kCapacityBlockBytes}) != block.before.crc32c();
                      return absl::OkStatus();
                    });
}

absl::Status Tier::Move(Moving& moving, MapTransaction& transaction) {
  if (moving_blocks_.size() < moving.blocks.size() * kCapacityBlockBytes) {
    moving_blocks_ = AlignedBuffer(moving.blocks.size() * kCapacityBlockBytes);
  }
  EBB_RETURN_IF_ERROR(ReadMoving(moving));
  const auto is_damaged = [](const auto& one) { return one.damaged; };
  // A second reading may be better than the first.
  if (std::any_of(moving.units.begin(), moving.units.end(), is_damaged) ||
      std::any_of(moving.blocks.begin(), moving.blocks.end(), is_damaged)) {
    EBB_RETURN_IF_ERROR(ReadMoving(moving));
  }
  UnitPacker packer(layout_, segments_, writer_, transaction,
                    {.stream = Stream::kCompaction,
                     .extent_bytes = kExtentBytesMax,
                     .parallelism = kParallelism,
                     .node_uuid = format_.node_uuid,
                     .keep_going = nullptr});
  for (size_t i = 0; i < moving.blocks.size(); ++i) {
    MovingBlock& block = moving.blocks[i];
    if (block.damaged) continue;
    EBB_ASSIGN_OR_RETURN(const std::span<std::byte> room,
                         packer.AddBlock(block.block, block.before.crc32c(), &block.after));
    std::memcpy(room.data(), moving_blocks_.data() + i * kCapacityBlockBytes, kCapacityBlockBytes);
  }
  // Raw units before compressed ones: what follows them needs no alignment, so nothing is lost
  // between the two.
  for (const bool raw : {true, false}) {
    for (const MovingUnit& unit : moving.units) {
      if (unit.damaged || (unit.codec == Compression::kOff) != raw) continue;
      EBB_ASSIGN_OR_RETURN(
          const std::span<std::byte> room,
          packer.Add({.unit = unit.number,
                      .stored_bytes = static_cast<uint32_t>(unit.bytes.size()),
                      .stored_mask = unit.stored_mask,
                      .codec = unit.codec,
                      .block_count = static_cast<uint8_t>(unit.record.blocks.size())}));
      std::memcpy(room.data(), unit.bytes.data(), unit.bytes.size());
    }
  }
  EBB_RETURN_IF_ERROR(packer.Finish());
  for (const MovingBlock& block : moving.blocks) {
    EBB_RETURN_IF_ERROR(transaction.Point(block.block, block.before, block.after));
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
