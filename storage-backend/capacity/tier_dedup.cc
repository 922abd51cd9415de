// Store, first step: which blocks of a batch are stored already. docs/adr/0007-sampled-dedup.md has
// the reasons and the figures.
//
// `on` fingerprints every block and looks it up. `sampled` does so with an eighth of the blocks,
// chosen by their checksum, so that equal blocks are chosen alike. From one that is found it walks
// on both ways, along the batch and along the units, as long as the checksums agree: copies of
// files lie in the order of the original. Checksums prove nothing, so what was walked over is read
// back and compared. Blocks of one batch are compared with each other in memory, by either.
#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "storage-backend/capacity/tier.h"
#include "storage-backend/capacity/tier_steps.h"

namespace ebb::storage {
namespace {

// Above this many users a block is stored anew instead of shared further.
constexpr uint32_t kReferencesMax = UINT32_MAX / 2;
constexpr uint32_t kSampleOneIn = 8;
// Blocks of zeroes, the commonest duplicates of all, are always looked up.
constexpr uint32_t kCrcOfZeroes = 0x98f94189;
// A shorter run is not worth a read: 16 KiB.
constexpr size_t kReadBackBlocksMin = 4;
constexpr size_t kReadBackBlocksMax = 256;  // at once

bool Equal(const StoreBlock& a, const std::byte* b) {
  return std::memcmp(a.data, b, kCapacityBlockBytes) == 0;
}

// The block of `ref`'s unit can be shared by one more with this checksum.
bool IsShareable(const UnitRecord* unit, size_t index, uint32_t crc32c) {
  return unit != nullptr && index < unit->blocks.size() && unit->blocks[index].references != 0 &&
         unit->blocks[index].references < kReferencesMax && unit->blocks[index].crc32c == crc32c;
}

}  // namespace

bool IsLookedUp(Dedup dedup, uint32_t crc32c) {
  if (dedup == Dedup::kSampled) return (crc32c ^ kCrcOfZeroes) % kSampleOneIn == 0;
  return dedup == Dedup::kOn;
}

absl::Status Tier::FindDuplicates(StoreBatch& batch) {
  batch.fingerprints.resize(batch.blocks.size());
  EBB_RETURN_IF_ERROR(LookUp(batch));
  if (batch.options.dedup == Dedup::kSampled) EBB_RETURN_IF_ERROR(FollowRuns(batch));
  for (const MapEntry& entry : batch.entries) {
    batch.report.deduplicated_blocks += entry.mapped() ? 1 : 0;
  }
  CompareWithinBatch(batch);
  return absl::OkStatus();
}

absl::Status Tier::LookUp(StoreBatch& batch) {
  std::vector<size_t> chosen;
  std::vector<std::string> keys;
  for (size_t i = 0; i < batch.blocks.size(); ++i) {
    const StoreBlock& block = batch.blocks[i];
    if (!IsLookedUp(batch.options.dedup, block.crc32c)) continue;
    // A block that is found elsewhere is not copied, so that nothing later would verify it.
    if (Crc32c({block.data, kCapacityBlockBytes}) != block.crc32c) {
      return absl::DataLossError(absl::StrCat("capacity: block ", block.block,
                                              " changed in memory before it was stored: its "
                                              "checksum does not match"));
    }
    batch.fingerprints[i] = fingerprinter_.Of({block.data, kCapacityBlockBytes});
    chosen.push_back(i);
    keys.push_back(FingerprintKey(batch.fingerprints[i]));
  }
  EBB_ASSIGN_OR_RETURN(const auto values, metadata_->MultiGet(Table::kFingerprints, keys));
  std::vector<std::pair<size_t, BlockRef>> known;
  std::vector<uint64_t> units;
  for (size_t n = 0; n < chosen.size(); ++n) {
    if (!values[n].has_value()) continue;
    EBB_ASSIGN_OR_RETURN(const BlockRef ref, DecodeFingerprintEntry(keys[n], *values[n]));
    known.emplace_back(chosen[n], ref);
    units.push_back(ref.unit);
  }
  EBB_RETURN_IF_ERROR(batch.transaction.LoadUnits(std::move(units)));
  for (const auto& [i, ref] : known) {
    const uint32_t crc32c = batch.blocks[i].crc32c;
    if (!IsShareable(batch.transaction.Unit(ref.unit), ref.index, crc32c)) continue;
    batch.entries[i] = MapEntry::Unit(ref, crc32c);
  }
  return absl::OkStatus();
}

absl::Status Tier::FollowRuns(StoreBatch& batch) {
  const size_t count = batch.blocks.size();
  std::vector<MapEntry> guesses(count);
  for (size_t i = 0; i < count; ++i) {
    if (!batch.entries[i].mapped()) continue;
    EBB_RETURN_IF_ERROR(WalkFrom(batch, i, /*forward=*/false, guesses));
    EBB_RETURN_IF_ERROR(WalkFrom(batch, i, /*forward=*/true, guesses));
  }
  std::vector<size_t> run;  // its guesses: what was looked up in between is known
  for (size_t i = 0; i <= count; ++i) {
    if (i < count && guesses[i].mapped()) run.push_back(i);
    const bool goes_on = i < count && (guesses[i].mapped() || batch.entries[i].mapped());
    if (goes_on && run.size() < kReadBackBlocksMax) continue;
    if (run.size() >= kReadBackBlocksMin) ReadBack(batch, run, guesses);
    run.clear();
  }
  return absl::OkStatus();
}

absl::Status Tier::WalkFrom(StoreBatch& batch, size_t known, bool forward,
                            std::vector<MapEntry>& guesses) {
  BlockRef ref = batch.entries[known].ref();
  size_t i = known;
  while (forward ? i + 1 < batch.blocks.size() : i > 0) {
    i += forward ? 1 : size_t{0} - 1;
    if (batch.entries[i].mapped() || guesses[i].mapped()) return absl::OkStatus();
    const UnitRecord* unit = batch.transaction.Unit(ref.unit);
    const bool leaves = forward ? ref.index + size_t{1} == unit->blocks.size() : ref.index == 0;
    if (leaves) {
      // Units are numbered as they were stored.
      ref.unit += forward ? 1 : uint64_t{0} - 1;
      if (batch.transaction.Unit(ref.unit) == nullptr) {
        EBB_RETURN_IF_ERROR(batch.transaction.LoadUnits({ref.unit}));
      }
      unit = batch.transaction.Unit(ref.unit);
      if (unit == nullptr) return absl::OkStatus();
      ref.index = forward ? uint8_t{0} : static_cast<uint8_t>(unit->blocks.size() - 1);
    } else {
      ref.index = static_cast<uint8_t>(forward ? ref.index + 1 : ref.index - 1);
    }
    const uint32_t crc32c = batch.blocks[i].crc32c;
    if (!IsShareable(unit, ref.index, crc32c)) return absl::OkStatus();
    guesses[i] = MapEntry::Unit(ref, crc32c);
  }
  return absl::OkStatus();
}

void Tier::ReadBack(StoreBatch& batch, std::span<const size_t> run,
                    const std::vector<MapEntry>& guesses) {
  if (read_back_.size() == 0) {
    read_back_ = AlignedBuffer(kReadBackBlocksMax * kCapacityBlockBytes);
  }
  std::vector<Wanted> wanted;
  wanted.reserve(run.size());
  for (const size_t i : run) {
    wanted.push_back({.block = batch.blocks[i].block,
                      .position = wanted.size(),
                      .entry = guesses[i],
                      .unit = *batch.transaction.Unit(guesses[i].ref().unit),
                      .resolved = true});
  }
  // What cannot be read is not shared but stored anew.
  if (!ReadPlaced(wanted, read_back_.data()).ok()) return;
  for (size_t n = 0; n < run.size(); ++n) {
    if (!Equal(batch.blocks[run[n]], read_back_.data() + n * kCapacityBlockBytes)) continue;
    batch.entries[run[n]] = guesses[run[n]];
  }
}

void Tier::CompareWithinBatch(StoreBatch& batch) {
  absl::flat_hash_map<uint32_t, size_t> first_with;  // of each checksum
  batch.same_as.resize(batch.blocks.size());
  for (size_t i = 0; i < batch.blocks.size(); ++i) {
    batch.same_as[i] = i;
    if (batch.entries[i].mapped()) continue;
    const auto [first, is_new] = first_with.try_emplace(batch.blocks[i].crc32c, i);
    if (is_new || !Equal(batch.blocks[i], batch.blocks[first->second].data)) continue;
    batch.same_as[i] = first->second;
    ++batch.report.deduplicated_blocks;
  }
}

}  // namespace ebb::storage
