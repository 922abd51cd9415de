// MemMetadata is a MetadataStore in memory whose power can be cut.
//
// For tests and simulation: Crash() forgets what no durable commit covered, exactly what
// RocksMetadata promises to lose at worst, and a commit can be told to fail. Deterministic.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class MemMetadata final : public MetadataStore {
 public:
  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override;
  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      Table table, const std::vector<std::string>& keys) override;
  absl::Status Scan(
      Table table, std::string_view first, std::string_view last,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) override;
  absl::Status Commit(const MetadataBatch& batch, bool durable) override;

  // Back to the state of the last durable commit, as after a power cut.
  void Crash();
  // The n-th commit from now (1 = the next) and all after it fail without a trace; 0 heals.
  void FailCommitFrom(uint64_t n);
  // Commits asked for so far, failed ones included.
  uint64_t commits() const;

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;

  mutable std::shared_mutex mutex_;
  std::array<Rows, kTableCount> tables_;
  std::vector<MetadataBatch::Change> undo_;  // of the commits since the last durable one, in order
  uint64_t commits_ = 0;
  uint64_t fail_from_ = 0;  // value of commits_ from which on commits fail; 0 = never
};

}  // namespace ebb::storage
