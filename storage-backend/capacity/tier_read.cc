// Read: from blocks to places to verified bytes, beside a running Store.
//
// A reader pins the epoch, looks the map up, then the units, then reads. What it resolved stays
// where it is until it leaves. Only the two look-ups can straddle a commit: a unit that the map
// named may be gone or may no longer hold the block when it is looked up; then the map has changed
// too, or will in a moment, and the block is resolved again. When no commit was on its way, the
// metadata is damaged. Direct entries, the common kind, need one look-up.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/aligned_buffer.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "storage-backend/capacity/range_reader.h"
#include "storage-backend/capacity/tier.h"
#include "storage-backend/capacity/tier_steps.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kPieceBlocks = 256;  // resolved and read at once
constexpr uint64_t kFewBlocks = 8;      // their entries are kept on the stack
constexpr std::chrono::microseconds kCommitPoll{50};

// Whether the blocks lie side by side on one device.
bool IsOneRun(std::span<const MapEntry> entries) {
  const MapEntry& first = entries.front();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].is_direct() || entries[i].device() != first.device() ||
        entries[i].device_offset() != first.device_offset() + i * kCapacityBlockBytes) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status Tier::Read(uint64_t first_block, uint64_t count, std::byte* out,
                        std::span<bool> mapped) {
  if (count <= kFewBlocks) {
    std::array<MapEntry, kFewBlocks> entries;
    return ReadPiece(first_block, std::span(entries).first(count), out, mapped);
  }
  std::vector<MapEntry> entries(std::min(count, kPieceBlocks));
  for (uint64_t done = 0; done < count;) {
    const uint64_t piece = std::min(count - done, kPieceBlocks);
    EBB_RETURN_IF_ERROR(ReadPiece(first_block + done, std::span(entries).first(piece),
                                  out + done * kCapacityBlockBytes,
                                  mapped.empty() ? mapped : mapped.subspan(done, piece)));
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status Tier::ReadPiece(uint64_t first_block, std::span<MapEntry> entries, std::byte* out,
                             std::span<bool> mapped) {
  const ReadPins::Pin pin = pins_.Enter();
  const uint64_t change_count = change_count_.load();
  const size_t count = entries.size();
  EBB_RETURN_IF_ERROR(map_.Read(first_block, entries));
  size_t begin = count;
  size_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool is_mapped = entries[i].mapped();
    if (!mapped.empty()) mapped[i] = is_mapped;
    if (is_mapped) {
      begin = std::min(begin, i);
      end = i + 1;
    } else {
      std::memset(out + i * kCapacityBlockBytes, 0, kCapacityBlockBytes);
    }
  }
  if (begin >= end) return absl::OkStatus();
  entries = entries.subspan(begin, end - begin);
  first_block += begin;
  out += begin * kCapacityBlockBytes;
  if (reinterpret_cast<uintptr_t>(out) % AlignedBuffer::kAlignment == 0 && IsOneRun(entries)) {
    return ReadRun(first_block, entries, out);
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<Wanted> wanted,
                       Resolve(first_block, entries, change_count));
  if (wanted.size() < entries.size()) {
    // Trimmed meanwhile, or unmapped to begin with.
    size_t next = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (next < wanted.size() && wanted[next].position == i) {
        ++next;
        continue;
      }
      std::memset(out + i * kCapacityBlockBytes, 0, kCapacityBlockBytes);
      if (!mapped.empty()) mapped[begin + i] = false;
    }
  }
  return ReadPlaced(wanted, out);
}

absl::Status Tier::ReadRun(uint64_t first_block, std::span<const MapEntry> run, std::byte* out) {
  const uint8_t device = run.front().device();
  const uint64_t offset = run.front().device_offset();
  if (device >= devices_.size()) {
    return absl::DataLossError(absl::StrCat("capacity: block ", first_block,
                                            " is mapped to device ", static_cast<int>(device),
                                            ", which is missing"));
  }
  absl::Status status =
      devices_[device]->Read(offset, std::span(out, run.size() * kCapacityBlockBytes));
  if (!status.ok() && run.size() > 1) {
    // A bad sector costs only its own block.
    for (size_t i = 0; i < run.size(); ++i) {
      EBB_RETURN_IF_ERROR(
          ReadRun(first_block + i, run.subspan(i, 1), out + i * kCapacityBlockBytes));
    }
    return absl::OkStatus();
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("capacity: block ", first_block, " cannot be read from ",
                                         Place(device, offset)));
  }
  for (size_t i = 0; i < run.size(); ++i) {
    EBB_RETURN_IF_ERROR(CheckBlock(first_block + i, run[i].crc32c(), device,
                                   offset + i * kCapacityBlockBytes,
                                   out + i * kCapacityBlockBytes));
  }
  return absl::OkStatus();
}

absl::Status Tier::CheckBlock(uint64_t block, uint32_t crc32c, uint8_t device, uint64_t offset,
                              const std::byte* bytes) const {
  const uint32_t crc = Crc32c({bytes, kCapacityBlockBytes});
  if (crc == crc32c) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("capacity: block ", block, " is damaged on ", Place(device, offset),
                   absl::StrFormat(": its checksum is %08x instead of %08x", crc, crc32c)));
}

absl::StatusOr<std::vector<Tier::Wanted>> Tier::Resolve(uint64_t first_block,
                                                        std::span<const MapEntry> entries,
                                                        uint64_t change_count) {
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].mapped()) continue;
    wanted.push_back({.block = first_block + i, .position = i, .entry = entries[i], .unit = {}});
  }
  while (true) {
    EBB_RETURN_IF_ERROR(ResolveUnits(wanted, change_count));
    // What a commit overtook is looked up again; a block that was trimmed meanwhile drops out.
    std::erase_if(wanted, [](const Wanted& block) { return !block.entry.mapped(); });
    if (std::all_of(wanted.begin(), wanted.end(), [](const Wanted& b) { return b.resolved; })) {
      return wanted;
    }
  }
}

absl::Status Tier::LoadMissing(std::vector<Wanted>& wanted) {
  // The version is taken before the look-ups: see UnitCache.
  const uint64_t version = cache_.version();
  absl::flat_hash_map<uint64_t, std::vector<size_t>> missing;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].resolved) continue;
    const uint64_t unit = wanted[i].entry.ref().unit;
    if (i > 0 && wanted[i - 1].resolved && wanted[i - 1].entry.is_unit() &&
        wanted[i - 1].entry.ref().unit == unit) {
      wanted[i].unit = wanted[i - 1].unit;
      wanted[i].resolved = true;
    } else if (std::optional<UnitRecord> record = cache_.Get(unit); record.has_value()) {
      wanted[i].unit = *std::move(record);
      wanted[i].resolved = true;
    } else {
      missing[unit].push_back(i);
    }
  }
  if (missing.empty()) return absl::OkStatus();
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
  return absl::OkStatus();
}

absl::Status Tier::ResolveUnits(std::vector<Wanted>& wanted, uint64_t& change_count) {
  for (Wanted& block : wanted) block.resolved = block.resolved || block.entry.is_direct();
  EBB_RETURN_IF_ERROR(LoadMissing(wanted));
  const uint64_t now = change_count_.load();
  bool overtaken = false;
  for (Wanted& block : wanted) {
    if (block.entry.is_direct()) continue;
    const BlockRef ref = block.entry.ref();
    if (block.resolved && ref.index < block.unit.blocks.size() && block.unit.IsStored(ref.index)) {
      continue;
    }
    // An even count that has not moved: map and units are those of one commit.
    if (change_count == now && now % 2 == 0) {
      return absl::DataLossError(absl::StrCat("capacity: block ", block.block,
                                              " is mapped to unit ", ref.unit,
                                              ", which does not hold it"));
    }
    overtaken = true;
    block.resolved = false;
    EBB_RETURN_IF_ERROR(map_.Read(block.block, {&block.entry, 1}));
  }
  if (overtaken && now % 2 != 0) std::this_thread::sleep_for(kCommitPoll);
  change_count = now;
  return absl::OkStatus();
}

absl::Status Tier::ReadPlaced(const std::vector<Wanted>& wanted, std::byte* out) {
  // A range for each raw block and for each compressed unit; `groups` holds the blocks of a range.
  std::vector<ReadRange> ranges;
  std::vector<std::vector<size_t>> groups;
  absl::flat_hash_map<uint64_t, size_t> group_of;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const MapEntry& entry = wanted[i].entry;
    const UnitRecord& unit = wanted[i].unit;
    ReadRange range{.device = unit.device, .offset = unit.offset, .bytes = unit.stored_bytes};
    if (entry.is_direct() || unit.codec == Compression::kOff) {
      if (entry.is_direct()) {
        range.device = entry.device();
        range.offset = entry.device_offset();
      } else {
        range.offset += unit.Rank(entry.ref().index) * kCapacityBlockBytes;
      }
      range.bytes = kCapacityBlockBytes;
      range.target = out + wanted[i].position * kCapacityBlockBytes;
    } else if (const auto known = group_of.find(entry.ref().unit); known != group_of.end()) {
      groups[known->second].push_back(i);
      continue;
    } else {
      group_of[entry.ref().unit] = groups.size();
    }
    range.tag = groups.size();
    ranges.push_back(range);
    groups.push_back({i});
    if (range.device >= devices_.size()) {
      return absl::DataLossError(
          absl::StrCat("capacity: block ", wanted[i].block, " is mapped to device ",
                       static_cast<int>(range.device), ", which is missing"));
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
  const bool compressed = first.entry.is_unit() && unit.codec != Compression::kOff;
  const std::byte* bytes = stored.data();
  if (compressed) {
    const std::span<std::byte> blocks = raw.span(0, unit.StoredBlocks() * kCapacityBlockBytes);
    if (absl::Status status = Decompress(unit.codec, stored, blocks); !status.ok()) {
      return Annotate(status, absl::StrCat("capacity: block ", first.block, " is damaged on ",
                                           Place(unit.device, unit.offset)));
    }
    bytes = blocks.data();
  }
  for (const size_t i : group) {
    const Wanted& block = wanted[i];
    uint8_t device = unit.device;
    uint64_t offset = unit.offset;
    uint64_t within = 0;
    if (block.entry.is_direct()) {
      device = block.entry.device();
      offset = block.entry.device_offset();
    } else if (compressed) {
      within = unit.Rank(block.entry.ref().index) * kCapacityBlockBytes;
    } else {
      offset += unit.Rank(block.entry.ref().index) * kCapacityBlockBytes;
    }
    EBB_RETURN_IF_ERROR(
        CheckBlock(block.block, block.entry.crc32c(), device, offset, bytes + within));
    std::byte* const target = out + block.position * kCapacityBlockBytes;
    if (target != bytes + within) std::memcpy(target, bytes + within, kCapacityBlockBytes);
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
