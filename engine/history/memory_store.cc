#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "engine/history/ordered_store.h"

namespace ebb::engine {
namespace {

class MemoryStore final : public OrderedStore {
 public:
  absl::Status Write(const std::vector<StoreEdit>& batch, bool /*sync*/) override {
    const std::lock_guard lock(mutex_);
    for (const StoreEdit& edit : batch) {
      auto& rows = tables_[static_cast<size_t>(edit.table)];
      if (edit.value) {
        rows[edit.key] = *edit.value;
      } else {
        rows.erase(edit.key);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[static_cast<size_t>(table)];
    const auto found = rows.find(key);
    if (found == rows.end()) return std::nullopt;
    return found->second;
  }

  absl::Status Scan(Table table, std::string_view from, std::string_view to, bool descending,
                    const Visit& visit) override {
    // Row by row, so that `visit` may call the store.
    std::string low(from);
    std::string high(to);
    while (auto row = EndOf(table, low, high, descending)) {
      if (!visit(row->first, row->second)) break;
      if (descending) {
        high = std::move(row->first);
      } else {
        low = std::move(row->first) + '\0';  // the next possible key
      }
    }
    return absl::OkStatus();
  }

  std::unique_ptr<KeyCursor> MakeCursor(Table table, std::string from, std::string to) override {
    return std::make_unique<Cursor>(*this, table, std::move(from), std::move(to));
  }

  absl::Status DeleteRange(Table table, std::string_view from, std::string_view to) override {
    const std::lock_guard lock(mutex_);
    auto& rows = tables_[static_cast<size_t>(table)];
    if (from < to) rows.erase(rows.lower_bound(from), rows.lower_bound(to));
    return absl::OkStatus();
  }

 private:
  using Row = std::pair<std::string, std::string>;
  class Cursor final : public KeyCursor {
   public:
    Cursor(MemoryStore& store, Table table, std::string from, std::string to)
        : store_(store), table_(table), from_(std::move(from)), to_(std::move(to)) {}
    bool SeekDown(std::string_view key) override {
      return LastBelow(std::min(to_, std::string(key) + '\0'));
    }
    bool Down() override { return LastBelow(std::string(key_)); }
    std::string_view key() const override { return key_; }
    absl::Status status() const override { return absl::OkStatus(); }

   private:
    bool LastBelow(const std::string& high) {
      auto row = store_.EndOf(table_, from_, high, /*last=*/true);
      if (row) key_ = std::move(row->first);
      return row.has_value();
    }
    MemoryStore& store_;
    const Table table_;
    const std::string from_;
    const std::string to_;
    std::string key_;
  };
  // The first or the last row in [low, high).
  std::optional<Row> EndOf(Table table, const std::string& low, const std::string& high,
                           bool last) {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[static_cast<size_t>(table)];
    if (low >= high) return std::nullopt;
    const auto begin = rows.lower_bound(low);
    const auto end = rows.lower_bound(high);
    if (begin == end) return std::nullopt;
    return last ? *std::prev(end) : *begin;
  }

  std::mutex mutex_;
  std::array<std::map<std::string, std::string, std::less<>>, kTableCount> tables_;
};

}  // namespace

std::unique_ptr<OrderedStore> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace ebb::engine
