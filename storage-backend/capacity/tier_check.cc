// Check: derives everything from the block map again and compares.
//
// The map and the segments that count are those of the metadata with the journal laid over them;
// what is in memory must be the same.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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
  absl::flat_hash_set<std::pair<uint8_t, uint64_t>> places;               // of direct entries
  std::map<SegmentId, uint64_t> live_bytes;
  std::map<SegmentId, uint64_t> expected_bytes;
  std::map<SegmentId, std::vector<uint64_t>> units_of;      // by place
  std::map<SegmentId, std::vector<uint64_t>> blocks_of;     // likewise, of direct entries
  JournalRecord journal;                                    // all of it; what is later counts
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
  EBB_RETURN_IF_ERROR(ReadJournal(recount));
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

absl::Status Tier::ReadJournal(Recount& recount) {
  for (uint64_t sequence = totals_.journal_first; sequence < totals_.journal_next; ++sequence) {
    EBB_ASSIGN_OR_RETURN(const auto value, metadata_->Get(Table::kJournal, JournalKey(sequence)));
    if (!value.has_value()) {
      recount.Fault(absl::StrCat("commit ", sequence, " is missing in the journal"));
      continue;
    }
    const absl::StatusOr<JournalRecord> record = DecodeJournal(sequence, *value);
    if (!record.ok()) {
      recount.Fault(std::string(record.status().message()));
      continue;
    }
    for (const MapChange& change : record->blocks) recount.journal.blocks.push_back(change);
    for (const SegmentChange& change : record->segments) {
      recount.journal.segments.push_back(change);
    }
  }
  std::stable_sort(recount.journal.blocks.begin(), recount.journal.blocks.end(),
                   [](const MapChange& a, const MapChange& b) { return a.block < b.block; });
  return absl::OkStatus();
}

absl::Status Tier::RecountMap(Recount& recount) {
  auto change = recount.journal.blocks.begin();
  const auto end = recount.journal.blocks.end();
  const auto count_page = [&](uint64_t page, MapPage entries) {
    for (; change != end && change->block / kPageBlocks == page; ++change) {
      entries[change->block % kPageBlocks] = change->entry;
    }
    MapPage in_memory;
    if (absl::Status read = map_.Read(page * kPageBlocks, in_memory); !read.ok()) {
      recount.Fault(std::string(read.message()));
    } else if (in_memory != entries) {
      recount.Fault(absl::StrCat("page ", page, " of the map: memory and metadata differ"));
    }
    for (size_t i = 0; i < kPageBlocks; ++i)
      CountEntry(page * kPageBlocks + i, entries[i], recount);
  };
  // Pages that only the journal knows of come between those of the table.
  const auto count_journal_until = [&](uint64_t page) {
    while (change != end && change->block / kPageBlocks < page) {
      count_page(change->block / kPageBlocks, MapPage{});
    }
  };
  EBB_RETURN_IF_ERROR(
      metadata_->Scan(Table::kMap, "", "", [&](std::string_view key, std::string_view value) {
        const uint64_t page = ParsePageKey(key);
        count_journal_until(page);
        const absl::StatusOr<MapPage> entries = DecodePage(page, value);
        if (!entries.ok()) recount.Fault(std::string(entries.status().message()));
        count_page(page, entries.ok() ? *entries : MapPage{});
        return true;
      }));
  count_journal_until(UINT64_MAX);
  return absl::OkStatus();
}

void Tier::CountEntry(uint64_t block, const MapEntry& entry, Recount& recount) {
  if (!entry.mapped()) return;
  ++recount.totals.mapped_blocks;
  if (entry.is_unit()) {
    ++recount.references[entry.ref().unit][entry.ref().index];
    return;
  }
  ++recount.totals.unique_blocks;
  recount.totals.stored_bytes += kCapacityBlockBytes;
  if (!segments_.IsWritten(entry.device(), entry.device_offset(), kCapacityBlockBytes)) {
    recount.Fault(absl::StrCat("block ", block, ": is said to be at offset ", entry.device_offset(),
                               " of device ", static_cast<int>(entry.device()),
                               ", where no segment in use is"));
    return;
  }
  if (!recount.places.insert({entry.device(), entry.device_offset()}).second) {
    recount.Fault(absl::StrCat("block ", block, ": shares its place with another"));
  }
  const SegmentId id = segments_.SegmentAt(entry.device(), entry.device_offset());
  recount.live_bytes[id] += kDirectLiveBytes;
  recount.expected_bytes[id] += kDirectLiveBytes;
  recount.blocks_of[id].push_back(block);
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
              fingerprints->back().index >= record->second.blocks.size()) {
            recount.Fault(absl::StrCat("unit ", *unit, ": its fingerprints do not fit it"));
            return true;
          }
          for (const BlockFingerprint& block : *fingerprints) {
            if (record->second.blocks[block.index].references == 0) continue;
            recount.fingerprints[FingerprintKey(block.fingerprint)] = {*unit, block.index};
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
  std::map<SegmentId, ExtentContent> listed;
  std::map<SegmentId, SegmentRecord> recorded;
  EBB_RETURN_IF_ERROR(
      metadata_->Scan(Table::kExtents, "", "", [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<SegmentId> id = ParseExtentKey(key);
        const absl::Status status = id.ok() ? DecodeExtent(key, value, listed[*id]) : id.status();
        if (!status.ok()) recount.Fault(std::string(status.message()));
        return true;
      }));
  EBB_RETURN_IF_ERROR(
      metadata_->Scan(Table::kSegments, "", "", [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<SegmentId> id = ParseSegmentKey(key);
        const absl::StatusOr<SegmentRecord> record =
            id.ok() ? DecodeSegment(*id, value) : id.status();
        if (record.ok()) {
          recorded[*id] = *record;
        } else {
          recount.Fault(std::string(record.status().message()));
        }
        return true;
      }));
  for (const SegmentChange& change : recount.journal.segments) {
    recorded[change.id] = change.record;
    if (change.record.state == SegmentState::kFree) recorded.erase(change.id);
  }
  segments_.ForEachUsed([&](SegmentId id, const SegmentRecord& record) {
    if (!recorded.contains(id) || recorded[id] != record) {
      recount.Fault(absl::StrCat(NameOf(id), ": memory and metadata differ"));
    }
    recorded.erase(id);
    CheckSegment(id, record, listed[id], recount);
    listed.erase(id);
  });
  for (const auto& [id, record] : recorded) {
    recount.Fault(absl::StrCat(NameOf(id), ": is free in memory and used in the metadata"));
  }
  for (const auto& [id, content] : listed) {
    recount.Fault(absl::StrCat(NameOf(id), ": is free but lists extents"));
  }
  return absl::OkStatus();
}

void Tier::CheckSegment(SegmentId id, const SegmentRecord& record, ExtentContent& listed,
                        Recount& recount) {
  if (record.live_bytes != recount.live_bytes[id] ||
      record.expected_bytes != recount.expected_bytes[id]) {
    recount.Fault(absl::StrCat(NameOf(id), ": recorded ", record.live_bytes, " live bytes (",
                               record.expected_bytes, " expected), counted ",
                               recount.live_bytes[id], " (", recount.expected_bytes[id], ")"));
  }
  const auto check_listed = [&](std::vector<uint64_t>& numbers, const std::vector<uint64_t>& wanted,
                                const char* what) {
    std::sort(numbers.begin(), numbers.end());
    for (const uint64_t number : wanted) {
      if (std::binary_search(numbers.begin(), numbers.end(), number)) continue;
      recount.Fault(absl::StrCat(NameOf(id), ": ", what, number, " is not listed in its extents"));
    }
  };
  check_listed(listed.units, recount.units_of[id], "unit ");
  check_listed(listed.blocks, recount.blocks_of[id], "block ");
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
