// MetadataStore is a small durable ordered map with atomic batches: where the capacity tier keeps
// its tables.
//
// Two implementations: RocksMetadata (RocksDB, one column family for each table) and MemMetadata
// (tests and simulated power cuts: loses what was not committed durably). Thread-safe; reads see
// whole batches only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::storage {

enum class Table : uint8_t { kMap, kJournal, kUnits, kFingerprints, kSegments, kExtents, kNode };
inline constexpr size_t kTableCount = 7;
// "map", "units", ...: for messages and as the name of the column family.
const char* TableName(Table table);

// Changes that become visible and durable together.
class MetadataBatch {
 public:
  struct Change {
    Table table;
    std::string key;
    std::optional<std::string> value;  // none: delete
  };
  void Put(Table table, std::string_view key, std::string_view value) {
    changes_.push_back({table, std::string(key), std::string(value)});
  }
  // The same for a large value that the caller has no more use for.
  void PutMoved(Table table, std::string_view key, std::string value) {
    changes_.push_back({table, std::string(key), std::move(value)});
  }
  void Delete(Table table, std::string_view key) {
    changes_.push_back({table, std::string(key), std::nullopt});
  }
  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return changes_.empty(); }

 private:
  std::vector<Change> changes_;
};

class MetadataStore {
 public:
  virtual ~MetadataStore() = default;

  // The value, or nullopt when the key is absent.
  virtual absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) = 0;
  // One look-up for many keys, in their order.
  virtual absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      Table table, const std::vector<std::string>& keys) = 0;
  // Calls `visit` on one consistent state, in key order from `first` (inclusive) until it returns
  // false or `last` (exclusive; empty = end).
  virtual absl::Status Scan(
      Table table, std::string_view first, std::string_view last,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) = 0;
  // All or nothing. Durable on return when `durable`; otherwise with the next durable one at the
  // latest.
  virtual absl::Status Commit(const MetadataBatch& batch, bool durable) = 0;
};

// Opens or creates a RocksDB in `directory`.
absl::StatusOr<std::unique_ptr<MetadataStore>> OpenRocksMetadata(const std::string& directory);

// Opens the one in `directory` without changing a file in it; commits fail. NotFound when there is
// none. Whoever calls sees to it that nobody has it open for writing.
absl::StatusOr<std::unique_ptr<MetadataStore>> OpenRocksMetadataReadOnly(
    const std::string& directory);

}  // namespace ebb::storage
