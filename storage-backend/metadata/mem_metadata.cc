#include "storage-backend/metadata/mem_metadata.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ebb::storage {

absl::StatusOr<std::optional<std::string>> MemMetadata::Get(Table table, std::string_view key) {
  std::shared_lock lock(mutex_);
  const Rows& rows = tables_[static_cast<size_t>(table)];
  const auto row = rows.find(key);
  if (row == rows.end()) return std::optional<std::string>();
  return std::optional<std::string>(row->second);
}

absl::StatusOr<std::vector<std::optional<std::string>>> MemMetadata::MultiGet(
    Table table, const std::vector<std::string>& keys) {
  std::shared_lock lock(mutex_);
  const Rows& rows = tables_[static_cast<size_t>(table)];
  std::vector<std::optional<std::string>> values(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (const auto row = rows.find(keys[i]); row != rows.end()) values[i] = row->second;
  }
  return values;
}

absl::Status MemMetadata::Scan(
    Table table, std::string_view first, std::string_view last,
    const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  // Copied first, so that the visitor may use the store.
  std::vector<std::pair<std::string, std::string>> copy;
  {
    std::shared_lock lock(mutex_);
    const Rows& rows = tables_[static_cast<size_t>(table)];
    for (auto row = rows.lower_bound(first);
         row != rows.end() && (last.empty() || row->first < last); ++row) {
      copy.emplace_back(row->first, row->second);
    }
  }
  for (const auto& [key, value] : copy) {
    if (!visit(key, value)) break;
  }
  return absl::OkStatus();
}

absl::Status MemMetadata::Commit(const MetadataBatch& batch, bool durable) {
  std::unique_lock lock(mutex_);
  ++commits_;
  if (fail_from_ != 0 && commits_ >= fail_from_) {
    return absl::InternalError(absl::StrCat("commit ", commits_, " failed on request"));
  }
  for (const MetadataBatch::Change& change : batch.changes()) {
    Rows& rows = tables_[static_cast<size_t>(change.table)];
    const auto row = rows.find(change.key);
    const bool present = row != rows.end();
    if (!durable) {
      undo_.push_back({change.table, change.key,
                       present ? std::optional<std::string>(row->second) : std::nullopt});
    }
    if (change.value.has_value()) {
      if (present) {
        row->second = *change.value;
      } else {
        rows.emplace(change.key, *change.value);
      }
    } else if (present) {
      rows.erase(row);
    }
  }
  if (durable) undo_.clear();
  return absl::OkStatus();
}

void MemMetadata::Crash() {
  std::unique_lock lock(mutex_);
  for (auto change = undo_.rbegin(); change != undo_.rend(); ++change) {
    Rows& rows = tables_[static_cast<size_t>(change->table)];
    if (change->value.has_value()) {
      rows[change->key] = *change->value;
    } else {
      rows.erase(change->key);
    }
  }
  undo_.clear();
}

void MemMetadata::FailCommitFrom(uint64_t n) {
  std::unique_lock lock(mutex_);
  fail_from_ = n == 0 ? 0 : commits_ + n;
}

uint64_t MemMetadata::commits() const {
  std::shared_lock lock(mutex_);
  return commits_;
}

}  // namespace ebb::storage
