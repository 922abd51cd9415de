// Check: derives everything from the block map again and compares.
#include <algorithm>
#include <array>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "storage-backend/capacity/tier.h"

namespace ebb::storage {
namespace {

constexpr size_t kFaultsMax = 100;

std::string NameOf(SegmentId id) {
  return absl::StrCat("segment ", id.segment, " of device ", static_cast<int>(id.device));
}

}  // namespace

struct Tier::Recount {
  std::vector<std::string> faults;
  uint64_t more_faults = 0;
  TotalsRecord totals;
  absl::flat_hash_map<uint64_t, std::map<uint8_t, uint32_t>> references;  // unit, index: users
  std::map<SegmentId, uint64_t> live_bytes;
  std::map<SegmentId, uint64_t> expected_bytes;
  std::map<SegmentId, std::vector<uint64_t>> units_of;      // by place
  absl::flat_hash_map<std::string, BlockRef> fingerprints;  // key: block that should be found

  void Fault(std::string words) {
    if (faults.size() < kFaultsMax) {
      faults.push_back(std::move(words));
    } else {
      ++more_faults;
    }
  }
};

absl::StatusOr<std::vector<std::string>> Tier::Check() {
  std::lock_guard lock(change_mutex_);
  Recount recount;
  EBB_RETURN_IF_ERROR(RecountMap(recount));
  EBB_RETURN_IF_ERROR(CheckUnits(recount));
  EBB_RETURN_IF_ERROR(CheckSegments(recount));
  EBB_RETURN_IF_ERROR(CheckFingerprints(recount));
  const auto compare = [&](const char* what, uint64_t recorded, uint64_t counted) {
    if (recorded == counted) return;
    recount.Fault(absl::StrCat(what, ": recorded ", recorded, ", counted ", counted));
  };
  compare("mapped blocks", totals_.mapped_blocks, recount.totals.mapped_blocks);
  compare("unique blocks", totals_.unique_blocks, recount.totals.unique_blocks);
  compare("stored bytes", totals_.stored_bytes, recount.totals.stored_bytes);
  if (recount.more_faults != 0) {
    recount.faults.push_back(absl::StrCat("and ", recount.more_faults, " more"));
  }
  return std::move(recount.faults);
}

absl::Status Tier::RecountMap(Recount& recount) {
  return metadata_->Scan(Table::kMap, "", "", [&](std::string_view key, std::string_view value) {
    const uint64_t block = ParseMapKey(key);
    const absl::StatusOr<MapEntry> entry = DecodeMapEntry(block, value);
    if (!entry.ok()) {
      recount.Fault(std::string(entry.status().message()));
      return true;
    }
    ++recount.totals.mapped_blocks;
    ++recount.references[entry->ref.unit][entry->ref.index];
    return true;
  });
}

absl::Status Tier::CheckUnits(Recount& recount) {
  absl::flat_hash_map<uint64_t, UnitRecord> fingerprinted;
  EBB_RETURN_IF_ERROR(
      metadata_->Scan(Table::kUnits, "", "", [&](std::string_view key, std::string_view value) {
        bool is_fingerprints = false;
        const absl::StatusOr<uint64_t> unit = ParseUnitKey(key, is_fingerprints);
        if (!unit.ok()) {
          recount.Fault(std::string(unit.status().message()));
          return true;
        }
        if (is_fingerprints) {
          const auto record = fingerprinted.find(*unit);
          const auto fingerprints = DecodeUnitFingerprints(*unit, value);
          if (record == fingerprinted.end() || !fingerprints.ok() ||
              fingerprints->size() != record->second.blocks.size()) {
            recount.Fault(absl::StrCat("unit ", *unit, ": its fingerprints do not fit it"));
            return true;
          }
          for (uint8_t i = 0; i < fingerprints->size(); ++i) {
            if (record->second.blocks[i].references == 0) continue;
            recount.fingerprints[FingerprintKey((*fingerprints)[i])] = {*unit, i};
          }
          fingerprinted.erase(record);
          return true;
        }
        const absl::StatusOr<UnitRecord> record = DecodeUnit(*unit, value);
        if (!record.ok()) {
          recount.Fault(std::string(record.status().message()));
          return true;
        }
        if (absl::Status place = segments_.CheckPlace(*unit, *record); !place.ok()) {
          recount.Fault(std::string(place.message()));
          return true;
        }
        std::map<uint8_t, uint32_t> users;
        if (const auto found = recount.references.find(*unit); found != recount.references.end()) {
          users = std::move(found->second);
          recount.references.erase(found);
        }
        for (uint8_t i = 0; i < record->blocks.size(); ++i) {
          const uint32_t counted = users.contains(i) ? users[i] : 0;
          users.erase(i);
          if (counted == record->blocks[i].references) continue;
          recount.Fault(absl::StrCat("unit ", *unit, ": block ", static_cast<int>(i), " has ",
                                     record->blocks[i].references, " references and ", counted,
                                     " users"));
        }
        if (!users.empty())
          recount.Fault(absl::StrCat("unit ", *unit, ": users of missing blocks"));
        if (record->LiveBlocks() == 0) recount.Fault(absl::StrCat("unit ", *unit, ": is dead"));
        if (*unit >= totals_.next_unit) {
          recount.Fault(absl::StrCat("unit ", *unit, ": was never given out"));
        }
        const SegmentId id = segments_.SegmentAt(record->device, record->offset);
        recount.live_bytes[id] += record->LiveBytes();
        recount.expected_bytes[id] += record->ExpectedBytes();
        recount.units_of[id].push_back(*unit);
        recount.totals.unique_blocks += record->LiveBlocks();
        recount.totals.stored_bytes += record->LiveDataBytes();
        if (record->fingerprinted) fingerprinted[*unit] = *record;
        return true;
      }));
  for (const auto& [unit, users] : recount.references) {
    recount.Fault(absl::StrCat("unit ", unit, ": is mapped but has no record"));
  }
  for (const auto& [unit, record] : fingerprinted) {
    recount.Fault(absl::StrCat("unit ", unit, ": its fingerprints are missing"));
  }
  return absl::OkStatus();
}

absl::Status Tier::CheckSegments(Recount& recount) {
  std::map<SegmentId, std::vector<uint64_t>> listed;
  std::map<SegmentId, SegmentRecord> recorded;
  EBB_RETURN_IF_ERROR(
      metadata_->Scan(Table::kSegments, "", "", [&](std::string_view key, std::string_view value) {
        bool is_extent = false;
        uint32_t offset = 0;
        const absl::StatusOr<SegmentId> id = ParseSegmentKey(key, is_extent, offset);
        if (!id.ok()) {
          recount.Fault(std::string(id.status().message()));
        } else if (is_extent) {
          const absl::Status status = DecodeExtentUnits(key, value, listed[*id]);
          if (!status.ok()) recount.Fault(std::string(status.message()));
        } else if (const auto record = DecodeSegment(*id, value); record.ok()) {
          recorded[*id] = *record;
        } else {
          recount.Fault(std::string(record.status().message()));
        }
        return true;
      }));
  segments_.ForEachUsed([&](SegmentId id, const SegmentRecord& record) {
    if (!recorded.contains(id) || recorded[id] != record) {
      recount.Fault(absl::StrCat(NameOf(id), ": memory and metadata differ"));
    }
    recorded.erase(id);
    if (record.live_bytes != recount.live_bytes[id] ||
        record.expected_bytes != recount.expected_bytes[id]) {
      recount.Fault(absl::StrCat(NameOf(id), ": recorded ", record.live_bytes, " live bytes (",
                                 record.expected_bytes, " expected), counted ",
                                 recount.live_bytes[id], " (", recount.expected_bytes[id], ")"));
    }
    std::vector<uint64_t>& units = listed[id];
    std::sort(units.begin(), units.end());
    for (const uint64_t unit : recount.units_of[id]) {
      if (std::binary_search(units.begin(), units.end(), unit)) continue;
      recount.Fault(absl::StrCat(NameOf(id), ": unit ", unit, " is not listed in its extents"));
    }
    listed.erase(id);
  });
  for (const auto& [id, record] : recorded) {
    recount.Fault(absl::StrCat(NameOf(id), ": is free in memory and used in the metadata"));
  }
  for (const auto& [id, units] : listed) {
    recount.Fault(absl::StrCat(NameOf(id), ": is free but lists extents"));
  }
  return absl::OkStatus();
}

absl::Status Tier::CheckFingerprints(Recount& recount) {
  // An entry may be missing (a duplicate is then stored twice), but none may name a wrong block.
  return metadata_->Scan(
      Table::kFingerprints, "", "", [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<BlockRef> ref = DecodeFingerprintEntry(key, value);
        const auto found = recount.fingerprints.find(std::string(key));
        if (!ref.ok()) {
          recount.Fault(std::string(ref.status().message()));
        } else if (found == recount.fingerprints.end() || found->second != *ref) {
          recount.Fault(absl::StrCat("a fingerprint names block ", static_cast<int>(ref->index),
                                     " of unit ", ref->unit, ", whose content is another"));
        }
        return true;
      });
}

}  // namespace ebb::storage
