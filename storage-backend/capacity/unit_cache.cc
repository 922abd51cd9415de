#include "storage-backend/capacity/unit_cache.h"

#include <algorithm>
#include <bit>

namespace ebb::storage {

UnitCache::UnitCache(size_t entries_max)
    : sets_(std::bit_ceil(std::max<size_t>(entries_max / kWays, 1))) {}

size_t UnitCache::SetOf(uint64_t unit) const {
  return (unit * 0x9e3779b97f4a7c15) >> 16 & (sets_.size() - 1);
}

std::optional<UnitRecord> UnitCache::Get(uint64_t unit) {
  const size_t set = SetOf(unit);
  std::lock_guard lock(locks_[set % kLocks]);
  for (size_t way = 0; way < kWays; ++way) {
    if (sets_[set].units[way] == unit) return sets_[set].records[way];
  }
  return std::nullopt;
}

void UnitCache::Put(Set& set, uint64_t unit, const UnitRecord& record) {
  size_t way = 0;
  while (way < kWays && set.units[way] != unit) ++way;
  if (way == kWays) {
    way = 0;
    while (way < kWays && set.units[way] != 0) ++way;
  }
  if (way == kWays) {
    way = set.next_victim;
    set.next_victim = static_cast<uint8_t>((set.next_victim + 1) % kWays);
  }
  set.units[way] = unit;
  set.records[way] = record;
}

void UnitCache::Insert(uint64_t unit, const UnitRecord& record, uint64_t version_before) {
  const size_t set = SetOf(unit);
  std::lock_guard lock(locks_[set % kLocks]);
  if (version_.load() == version_before) Put(sets_[set], unit, record);
}

void UnitCache::Update(uint64_t unit, const UnitRecord* record) {
  const size_t set_index = SetOf(unit);
  std::lock_guard lock(locks_[set_index % kLocks]);
  Set& set = sets_[set_index];
  if (record != nullptr) {
    Put(set, unit, *record);
    return;
  }
  for (uint64_t& cached : set.units) {
    if (cached == unit) cached = 0;
  }
}

}  // namespace ebb::storage
