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
    // A copy, so that `visit` may call the store.
    std::vector<std::pair<std::string, std::string>> found;
    {
      const std::lock_guard lock(mutex_);
      const auto& rows = tables_[static_cast<size_t>(table)];
      if (from < to) found.assign(rows.lower_bound(from), rows.lower_bound(to));
    }
    if (descending) std::reverse(found.begin(), found.end());
    for (const auto& [key, value] : found) {
      if (!visit(key, value)) break;
    }
    return absl::OkStatus();
  }

  absl::Status DeleteRange(Table table, std::string_view from, std::string_view to) override {
    const std::lock_guard lock(mutex_);
    auto& rows = tables_[static_cast<size_t>(table)];
    if (from < to) rows.erase(rows.lower_bound(from), rows.lower_bound(to));
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::array<std::map<std::string, std::string, std::less<>>, kTableCount> tables_;
};

}  // namespace

std::unique_ptr<OrderedStore> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace ebb::engine
