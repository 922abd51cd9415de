// UnitCache keeps unit records that readers and the destager looked up lately, in bounded memory.
//
// Only committed records: the writer commits, then Updates what it changed. A reader may have
// looked a record up just before that and come to insert it just after, so an insertion carries the
// version that was current before the look-up and is dropped when a commit came between.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "storage-backend/capacity/records.h"

namespace ebb::storage {

class UnitCache {
 public:
  // At most `entries_max` records (about 290 bytes each), rounded up to a power of two.
  explicit UnitCache(size_t entries_max);

  std::optional<UnitRecord> Get(uint64_t unit);
  // Read before the look-up in the metadata store.
  uint64_t version() const { return version_.load(); }
  void Insert(uint64_t unit, const UnitRecord& record, uint64_t version_before);
  // After a commit: what was looked up before it may not be inserted any more.
  void NewVersion() { version_.fetch_add(1); }
  // The record after the commit; nullptr: the unit is gone.
  void Update(uint64_t unit, const UnitRecord* record);

 private:
  static constexpr size_t kWays = 4;
  static constexpr size_t kLocks = 64;
  struct Set {
    std::array<uint64_t, kWays> units{};  // 0: empty
    std::array<UnitRecord, kWays> records;
    uint8_t next_victim = 0;
  };

  static void Put(Set& set, uint64_t unit, const UnitRecord& record);
  size_t SetOf(uint64_t unit) const;

  std::atomic<uint64_t> version_{1};
  std::vector<Set> sets_;
  std::array<std::mutex, kLocks> locks_;
};

}  // namespace ebb::storage
