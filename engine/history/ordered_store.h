// OrderedStore: tables of byte strings in key order, with atomic batches. What History stands on.
//
// Thread-safe. A batch is written whole or not at all; with `sync` it survives a power cut once
// Write returned OK, and so does everything written before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::engine {

enum class Table : uint8_t { kEvents, kChanges, kChangeIndex, kSeries, kDocuments };
inline constexpr size_t kTableCount = 5;

struct StoreEdit {
  Table table = Table::kEvents;
  std::string key;
  std::optional<std::string> value;  // none: delete
};

// Walks the keys of a range downwards. At one key, or at the end. Not thread-safe.
class KeyCursor {
 public:
  virtual ~KeyCursor() = default;
  // To the greatest key that is at most `key`; false: there is none, or `status` tells why not.
  virtual bool SeekDown(std::string_view key) = 0;
  // To the next smaller key; likewise. Only when at a key.
  virtual bool Down() = 0;
  virtual std::string_view key() const = 0;
  virtual absl::Status status() const = 0;
};

class OrderedStore {
 public:
  virtual ~OrderedStore() = default;
  virtual absl::Status Write(const std::vector<StoreEdit>& batch, bool sync) = 0;
  virtual absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) = 0;
  // Visits the keys in [from, to), ascending or descending, until `visit` returns false.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  virtual absl::Status Scan(Table table, std::string_view from, std::string_view to,
                            bool descending, const Visit& visit) = 0;
  // Over the keys in [from, to). The store must outlive it.
  virtual std::unique_ptr<KeyCursor> MakeCursor(Table table, std::string from, std::string to) = 0;
  virtual absl::Status DeleteRange(Table table, std::string_view from, std::string_view to) = 0;
};

std::unique_ptr<OrderedStore> MakeMemoryStore();
// Creates the directory when it is missing; refuses a directory that another process holds.
absl::StatusOr<std::unique_ptr<OrderedStore>> OpenRocksStore(const std::string& directory);
// As it was at this moment, without changing a byte of it and also while another process holds it.
// Writes are refused. NotFound when there is none.
absl::StatusOr<std::unique_ptr<OrderedStore>> OpenRocksStoreForReading(
    const std::string& directory);

}  // namespace ebb::engine
