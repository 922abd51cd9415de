// Read: from blocks to places to verified bytes, beside a running Store.
//
// A reader pins the epoch, looks the map up, then the units, then reads. What it resolved stays
// where it is until it leaves. Only the two look-ups can straddle a commit: a unit that the map
// named may be gone or may no longer hold the block when it is looked up; then the map has changed
// too, and the block is resolved again. When the map still says the same, the metadata is damaged.
#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/aligned_buffer.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "storage-backend/capacity/range_reader.h"
#include "storage-backend/capacity/tier.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kPieceBlocks = 256;  // resolved and read at once
constexpr uint64_t kGetBlocksMax = 4;   // up to here single look-ups beat a scan

}  // namespace

struct Tier::Wanted {
  uint64_t block = 0;
  uint64_t position = 0;  // in the caller's buffer, in blocks
  MapEntry entry;
  UnitRecord unit;
  bool resolved = false;
};

absl::Status Tier::Read(uint64_t first_block, uint64_t count, std::byte* out,
                        std::span<bool> mapped) {
  for (uint64_t done = 0; done < count;) {
    const uint64_t piece = std::min(count - done, kPieceBlocks);
    EBB_RETURN_IF_ERROR(ReadPiece(first_block + done, piece, out + done * kCapacityBlockBytes,
                                  mapped.empty() ? mapped : mapped.subspan(done, piece)));
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status Tier::ReadPiece(uint64_t first_block, uint64_t count, std::byte* out,
                             std::span<bool> mapped) {
  const ReadPins::Pin pin = pins_.Enter();
  EBB_ASSIGN_OR_RETURN(std::vector<Wanted> wanted, Resolve(first_block, count));
  std::fill(mapped.begin(), mapped.end(), false);
  uint64_t next = 0;  // zeroes for what lies between mapped blocks
  for (const Wanted& block : wanted) {
    std::memset(out + next * kCapacityBlockBytes, 0, (block.position - next) * kCapacityBlockBytes);
    next = block.position + 1;
    if (!mapped.empty()) mapped[block.position] = true;
  }
  std::memset(out + next * kCapacityBlockBytes, 0, (count - next) * kCapacityBlockBytes);
  return ReadPlaced(wanted, out);
}

absl::StatusOr<std::vector<Tier::Wanted>> Tier::Resolve(uint64_t first_block, uint64_t count) {
  std::vector<Wanted> wanted;
  absl::Status decoded;
  const auto add = [&](uint64_t block, std::string_view value) {
    absl::StatusOr<MapEntry> entry = DecodeMapEntry(block, value);
    if (entry.ok()) {
      wanted.push_back(
          {.block = block, .position = block - first_block, .entry = *entry, .unit = {}});
    } else {
      decoded = entry.status();
    }
    return decoded.ok();
  };
  if (count <= kGetBlocksMax) {
    for (uint64_t block = first_block; block < first_block + count; ++block) {
      EBB_ASSIGN_OR_RETURN(const auto value, metadata_->Get(Table::kMap, MapKey(block)));
      if (value.has_value()) add(block, *value);
    }
  } else {
    EBB_RETURN_IF_ERROR(metadata_->Scan(Table::kMap, MapKey(first_block),
                                        MapKey(first_block + count),
                                        [&](std::string_view key, std::string_view value) {
                                          return add(ParseMapKey(key), value);
                                        }));
  }
  EBB_RETURN_IF_ERROR(decoded);
  while (true) {
    EBB_RETURN_IF_ERROR(ResolveUnits(wanted));
    // What a commit overtook is looked up again; a block that was trimmed meanwhile drops out.
    std::erase_if(wanted, [](const Wanted& block) { return block.entry.ref.unit == 0; });
    if (std::all_of(wanted.begin(), wanted.end(), [](const Wanted& b) { return b.resolved; })) {
      return wanted;
    }
  }
}

absl::Status Tier::ResolveUnits(std::vector<Wanted>& wanted) {
  // The version is taken before the look-ups: see UnitCache.
  const uint64_t version = cache_.version();
  absl::flat_hash_map<uint64_t, std::vector<size_t>> missing;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].resolved) continue;
    const uint64_t unit = wanted[i].entry.ref.unit;
    if (i > 0 && wanted[i - 1].resolved && wanted[i - 1].entry.ref.unit == unit) {
      wanted[i].unit = wanted[i - 1].unit;
      wanted[i].resolved = true;
    } else if (std::optional<UnitRecord> record = cache_.Get(unit); record.has_value()) {
      wanted[i].unit = *std::move(record);
      wanted[i].resolved = true;
    } else {
      missing[unit].push_back(i);
    }
  }
  if (!missing.empty()) {
    std::vector<std::string> keys;
    for (const auto& [unit, blocks] : missing) keys.push_back(UnitKey(unit));
    EBB_ASSIGN_OR_RETURN(const auto values, metadata_->MultiGet(Table::kUnits, keys));
    size_t next = 0;
    for (const auto& [unit, blocks] : missing) {
      const std::optional<std::string>& value = values[next++];
      if (!value.has_value()) continue;
      EBB_ASSIGN_OR_RETURN(const UnitRecord record, DecodeUnit(unit, *value));
      cache_.Insert(unit, record, version);
      for (const size_t i : blocks) {
        wanted[i].unit = record;
        wanted[i].resolved = true;
      }
    }
  }
  for (Wanted& block : wanted) {
    const BlockRef ref = block.entry.ref;
    if (block.resolved && ref.index < block.unit.blocks.size() && block.unit.IsStored(ref.index)) {
      continue;
    }
    block.resolved = false;
    EBB_ASSIGN_OR_RETURN(const auto value, metadata_->Get(Table::kMap, MapKey(block.block)));
    MapEntry entry;
    if (value.has_value()) {
      EBB_ASSIGN_OR_RETURN(entry, DecodeMapEntry(block.block, *value));
      if (entry == block.entry) {
        return absl::DataLossError(absl::StrCat("capacity: block ", block.block,
                                                " is mapped to unit ", ref.unit,
                                                ", which does not hold it"));
      }
    }
    block.entry = entry;  // unit 0: not mapped any more
  }
  return absl::OkStatus();
}

absl::Status Tier::ReadPlaced(const std::vector<Wanted>& wanted, std::byte* out) {
  // A range for each raw block and for each compressed unit; `groups` holds the blocks of a range.
  std::vector<ReadRange> ranges;
  std::vector<std::vector<size_t>> groups;
  absl::flat_hash_map<uint64_t, size_t> group_of;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const UnitRecord& unit = wanted[i].unit;
    ReadRange range{.device = unit.device, .offset = unit.offset, .bytes = unit.stored_bytes};
    if (unit.codec == Compression::kOff) {
      range.offset += unit.Rank(wanted[i].entry.ref.index) * kCapacityBlockBytes;
      range.bytes = kCapacityBlockBytes;
      range.target = out + wanted[i].position * kCapacityBlockBytes;
    } else if (const auto known = group_of.find(wanted[i].entry.ref.unit);
               known != group_of.end()) {
      groups[known->second].push_back(i);
      continue;
    } else {
      group_of[wanted[i].entry.ref.unit] = groups.size();
    }
    range.tag = groups.size();
    ranges.push_back(range);
    groups.push_back({i});
    if (unit.device >= devices_.size()) {
      return absl::DataLossError(absl::StrCat("capacity: block ", wanted[i].block,
                                              " is mapped to device ",
                                              static_cast<int>(unit.device), ", which is missing"));
    }
  }
  return ReadRanges(devices_, ranges,
                    [&](const ReadRange& range, absl::StatusOr<std::span<const std::byte>> bytes) {
                      const std::vector<size_t>& group = groups[range.tag];
                      if (bytes.ok()) return Deliver(wanted, group, *bytes, out);
                      return Annotate(
                          bytes.status(),
                          absl::StrCat("capacity: block ", wanted[group[0]].block,
                                       " cannot be read from ", Place(range.device, range.offset)));
                    });
}

absl::Status Tier::Deliver(const std::vector<Wanted>& wanted, std::span<const size_t> group,
                           std::span<const std::byte> stored, std::byte* out) const {
  const Wanted& first = wanted[group[0]];
  const UnitRecord& unit = first.unit;
  static thread_local AlignedBuffer raw(kUnitBlocksMax * kCapacityBlockBytes);
  const std::byte* bytes = stored.data();
  if (unit.codec != Compression::kOff) {
    const std::span<std::byte> blocks = raw.span(0, unit.StoredBlocks() * kCapacityBlockBytes);
    if (absl::Status status = Decompress(unit.codec, stored, blocks); !status.ok()) {
      return Annotate(status, absl::StrCat("capacity: block ", first.block, " is damaged on ",
                                           Place(unit.device, unit.offset)));
    }
    bytes = blocks.data();
  }
  for (const size_t i : group) {
    const Wanted& block = wanted[i];
    const uint64_t within = unit.codec == Compression::kOff
                                ? 0
                                : unit.Rank(block.entry.ref.index) * kCapacityBlockBytes;
    const uint32_t crc = Crc32c({bytes + within, kCapacityBlockBytes});
    if (crc != block.entry.crc32c) {
      const uint64_t at =
          unit.offset + (unit.codec == Compression::kOff
                             ? unit.Rank(block.entry.ref.index) * kCapacityBlockBytes
                             : 0);
      return absl::DataLossError(absl::StrCat(
          "capacity: block ", block.block, " is damaged on ", Place(unit.device, at),
          absl::StrFormat(": its checksum is %08x instead of %08x", crc, block.entry.crc32c)));
    }
    std::byte* const target = out + block.position * kCapacityBlockBytes;
    if (target != bytes + within) std::memcpy(target, bytes + within, kCapacityBlockBytes);
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
