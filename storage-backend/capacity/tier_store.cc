// Store: from blocks to extents and a new map.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "base/units.h"
#include "storage-backend/capacity/tier.h"
#include "storage-backend/capacity/tier_steps.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kExtentBytesMin = 256 * kKiB;

// Extents small enough that `parallelism` of them are in flight to each device for one batch.
uint64_t ExtentBytesFor(uint64_t batch_bytes, int parallelism, size_t devices) {
  const uint64_t share = batch_bytes / (static_cast<uint64_t>(std::max(parallelism, 1)) * devices);
  return std::clamp(share / kCapacityBlockBytes * kCapacityBlockBytes, kExtentBytesMin,
                    kExtentBytesMax);
}

absl::Status Changed(const StoreBlock& block) {
  return absl::DataLossError(absl::StrCat("capacity: block ", block.block,
                                          " changed in memory before it was stored: its "
                                          "checksum does not match"));
}

// Copies a block to where it is stored from, and verifies what was copied.
absl::Status CopyVerified(const StoreBlock& block, std::byte* to) {
  const uint32_t crc = Crc32cCopy(to, {block.data, kCapacityBlockBytes});
  return crc == block.crc32c ? absl::OkStatus() : Changed(block);
}

// The unit of `unit_blocks` (fewer at the end) that begins at `first`.
std::span<const size_t> UnitAt(std::span<const size_t> blocks, size_t first, size_t unit_blocks) {
  return blocks.subspan(first, std::min(unit_blocks, blocks.size() - first));
}

absl::Status CheckAscending(std::span<const StoreBlock> blocks) {
  for (size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].block > blocks[i - 1].block) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("capacity: block ", blocks[i].block, " follows block ", blocks[i - 1].block,
                     "; a batch is ascending and names a block once"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Tier::Store(std::span<const StoreBlock> blocks, const StoreOptions& options,
                         StoreReport* report, const std::function<bool()>& keep_going) {
  std::lock_guard lock(change_mutex_);
  EBB_RETURN_IF_ERROR(CheckWritable());
  EBB_RETURN_IF_ERROR(CheckAscending(blocks));
  StoreReport counted;
  counted.blocks = blocks.size();
  if (!blocks.empty()) {
    EBB_RETURN_IF_ERROR(MakeRoom(blocks.size()));
    absl::Status status = StoreLocked(blocks, options, counted, keep_going);
    if (!status.ok()) {
      writer_.Abandon();
      segments_.Rollback();
      return status;
    }
  }
  if (report != nullptr) *report = counted;
  return absl::OkStatus();
}

absl::Status Tier::MakeRoom(uint64_t blocks) {
  const uint64_t fill = layout_.SegmentFillBytes();
  const uint64_t extents = blocks * kCapacityBlockBytes / kExtentBytesMin + 1;
  const uint64_t wanted =
      blocks * (kCapacityBlockBytes + kUnitEntryBytes) + extents * 2 * kCapacityBlockBytes;
  // Each round gains a little; a bound in case the segments are all but full of live data.
  for (uint64_t round = 0; round < 4 * segments_.total_segments(); ++round) {
    const uint64_t free = segments_.free_segments();
    const uint64_t usable = free > kCompactionSegments ? free - kCompactionSegments : 0;
    const uint64_t open = segments_.OpenBytes(Stream::kStore) / layout_.segment_bytes * fill;
    if (usable * fill + open >= wanted) break;
    if (!freed_.empty()) {
      ReleaseFreed(/*wait=*/true);
      continue;
    }
    EBB_ASSIGN_OR_RETURN(const bool moved, CompactLocked(/*urgent=*/true));
    if (!moved) break;  // the batch may still fit: it may shrink or be there already
  }
  return absl::OkStatus();
}

absl::Status Tier::StoreLocked(std::span<const StoreBlock> blocks, const StoreOptions& options,
                               StoreReport& report, const std::function<bool()>& keep_going) {
  MapTransaction transaction(*metadata_, map_, cache_, segments_, totals_);
  const uint64_t batch_bytes = blocks.size() * kCapacityBlockBytes;
  UnitPacker packer(
      layout_, segments_, writer_, transaction,
      {.stream = Stream::kStore,
       .extent_bytes = ExtentBytesFor(batch_bytes, options.parallelism, devices_.size()),
       .parallelism = options.parallelism,
       .node_uuid = format_.node_uuid,
       .keep_going = keep_going});
  StoreBatch batch{.blocks = blocks,
                   .options = options,
                   .report = report,
                   .transaction = transaction,
                   .packer = packer,
                   .entries = std::vector<MapEntry>(blocks.size()),
                   .fingerprints = {},
                   .same_as = {}};
  if (options.dedup != Dedup::kOff) EBB_RETURN_IF_ERROR(FindDuplicates(batch));
  EBB_RETURN_IF_ERROR(PackUniques(batch));
  EBB_RETURN_IF_ERROR(packer.SubmitRest());
  report.written_bytes = packer.written_bytes();

  // While the devices write: what this makes of the map.
  std::vector<uint64_t> numbers;
  numbers.reserve(blocks.size());
  for (const StoreBlock& block : blocks) numbers.push_back(block.block);
  EBB_ASSIGN_OR_RETURN(const std::vector<MapEntry> old, transaction.LoadBlocks(numbers));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t same = batch.same_as.empty() ? i : batch.same_as[i];
    EBB_RETURN_IF_ERROR(transaction.Point(blocks[i].block, old[i], batch.entries[same]));
  }
  EBB_RETURN_IF_ERROR(packer.Finish());
  return CommitChanges(transaction);
}

size_t Tier::UnitBlocks(const StoreBatch& batch) const {
  return std::clamp<size_t>(batch.options.unit_bytes / kCapacityBlockBytes, 1,
                            layout_.UnitBlocksMax());
}

absl::Status Tier::PackUniques(StoreBatch& batch) {
  std::vector<size_t> uniques;
  uniques.reserve(batch.blocks.size());
  for (size_t i = 0; i < batch.blocks.size(); ++i) {
    if (!batch.same_as.empty() && batch.same_as[i] != i) continue;
    if (!batch.entries[i].mapped()) uniques.push_back(i);
  }
  batch.report.raw_bytes += uniques.size() * kCapacityBlockBytes;
  if (batch.options.compression != Compression::kOff) return PackReduced(batch, uniques);
  if (batch.options.dedup == Dedup::kOff) return PackDirect(batch, uniques);
  // Only what may be shared needs a record of its own.
  const size_t unit_blocks = UnitBlocks(batch);
  for (size_t first = 0; first < uniques.size(); first += unit_blocks) {
    EBB_RETURN_IF_ERROR(PackRaw(batch, UnitAt(uniques, first, unit_blocks)));
  }
  return absl::OkStatus();
}

absl::Status Tier::PackReduced(StoreBatch& batch, std::span<const size_t> uniques) {
  const size_t unit_blocks = UnitBlocks(batch);
  const auto work = [&](size_t i, CompressionPool::Slot& slot, Compressor& compressor) {
    const std::span<const size_t> unit = UnitAt(uniques, i * unit_blocks, unit_blocks);
    for (size_t n = 0; n < unit.size() && slot.status.ok(); ++n) {
      slot.status = CopyVerified(batch.blocks[unit[n]], slot.raw.data() + n * kCapacityBlockBytes);
    }
    if (!slot.status.ok()) return;
    const size_t raw_bytes = unit.size() * kCapacityBlockBytes;
    slot.stored_bytes = compressor.Compress(
        batch.options.compression, std::span<const std::byte>(slot.raw).first(raw_bytes),
        std::span(slot.stored).first(MaxStoredBytes(raw_bytes)));
  };
  const auto take = [&](size_t i, CompressionPool::Slot& slot) {
    if (!slot.status.ok()) return slot.status;
    const std::span<const size_t> unit = UnitAt(uniques, i * unit_blocks, unit_blocks);
    if (slot.stored_bytes != 0) {
      return PackCompressed(batch, unit,
                            std::span<const std::byte>(slot.stored).first(slot.stored_bytes));
    }
    return batch.options.dedup == Dedup::kOff ? PackDirect(batch, unit) : PackRaw(batch, unit);
  };
  return pool_.Run((uniques.size() + unit_blocks - 1) / unit_blocks, batch.options.threads, work,
                   take);
}

absl::Status Tier::PackDirect(StoreBatch& batch, std::span<const size_t> blocks) {
  for (const size_t i : blocks) {
    const StoreBlock& block = batch.blocks[i];
    EBB_ASSIGN_OR_RETURN(const std::span<std::byte> room,
                         batch.packer.AddBlock(block.block, block.crc32c, &batch.entries[i]));
    EBB_RETURN_IF_ERROR(CopyVerified(block, room.data()));
  }
  batch.report.stored_bytes += blocks.size() * kCapacityBlockBytes;
  return absl::OkStatus();
}

namespace {

UnitRecord NewRecord(std::span<const StoreBlock> blocks, std::span<const size_t> unit) {
  UnitRecord record;
  for (const size_t i : unit) record.blocks.push_back({.crc32c = blocks[i].crc32c});
  return record;
}

uint32_t FullMask(size_t blocks) { return blocks == 32 ? UINT32_MAX : (uint32_t{1} << blocks) - 1; }

}  // namespace

std::vector<BlockFingerprint> Tier::FingerprintsOf(const StoreBatch& batch,
                                                   std::span<const size_t> unit) {
  std::vector<BlockFingerprint> fingerprints;
  for (size_t i = 0; i < unit.size(); ++i) {
    if (!IsLookedUp(batch.options.dedup, batch.blocks[unit[i]].crc32c)) continue;
    fingerprints.push_back({static_cast<uint8_t>(i), batch.fingerprints[unit[i]]});
  }
  return fingerprints;
}

absl::Status Tier::PackCompressed(StoreBatch& batch, std::span<const size_t> unit,
                                  std::span<const std::byte> stored) {
  const uint64_t number =
      batch.transaction.CreateUnit(NewRecord(batch.blocks, unit), FingerprintsOf(batch, unit));
  const ExtentUnit entry{.unit = number,
                         .stored_bytes = static_cast<uint32_t>(stored.size()),
                         .stored_mask = FullMask(unit.size()),
                         .codec = batch.options.compression,
                         .block_count = static_cast<uint8_t>(unit.size())};
  EBB_ASSIGN_OR_RETURN(const std::span<std::byte> room, batch.packer.Add(entry));
  std::memcpy(room.data(), stored.data(), stored.size());
  batch.report.stored_bytes +=
      (stored.size() + kStoredUnitBytes - 1) / kStoredUnitBytes * kStoredUnitBytes;
  for (size_t i = 0; i < unit.size(); ++i) {
    batch.entries[unit[i]] =
        MapEntry::Unit({number, static_cast<uint8_t>(i)}, batch.blocks[unit[i]].crc32c);
  }
  return absl::OkStatus();
}

absl::Status Tier::PackRaw(StoreBatch& batch, std::span<const size_t> unit) {
  // Cut where the extent ends, so that raw data leaves no room unused.
  while (!unit.empty()) {
    EBB_ASSIGN_OR_RETURN(const uint32_t blocks,
                         batch.packer.RawRoom(static_cast<uint32_t>(unit.size())));
    const std::span<const size_t> part = unit.first(blocks);
    unit = unit.subspan(blocks);
    const uint64_t number =
        batch.transaction.CreateUnit(NewRecord(batch.blocks, part), FingerprintsOf(batch, part));
    const ExtentUnit entry{.unit = number,
                           .stored_bytes = blocks * static_cast<uint32_t>(kCapacityBlockBytes),
                           .stored_mask = FullMask(blocks),
                           .codec = Compression::kOff,
                           .block_count = static_cast<uint8_t>(blocks)};
    EBB_ASSIGN_OR_RETURN(const std::span<std::byte> room, batch.packer.Add(entry));
    for (size_t i = 0; i < part.size(); ++i) {
      const StoreBlock& block = batch.blocks[part[i]];
      EBB_RETURN_IF_ERROR(CopyVerified(block, room.data() + i * kCapacityBlockBytes));
      batch.entries[part[i]] = MapEntry::Unit({number, static_cast<uint8_t>(i)}, block.crc32c);
    }
    batch.report.stored_bytes += blocks * kCapacityBlockBytes;
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
