// MetadataWrapper hands every verb on to another MetadataStore: the base of those that change one
// or two.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class MetadataWrapper : public MetadataStore {
 public:
  explicit MetadataWrapper(MetadataStore& inner) : inner_(inner) {}  // borrowed
  explicit MetadataWrapper(std::unique_ptr<MetadataStore> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    return inner_.Get(table, key);
  }
  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      Table table, const std::vector<std::string>& keys) override {
    return inner_.MultiGet(table, keys);
  }
  absl::Status Scan(Table table, std::string_view first, std::string_view last,
                    const std::function<bool(std::string_view, std::string_view)>& visit) override {
    return inner_.Scan(table, first, last, visit);
  }
  absl::Status Commit(const MetadataBatch& batch, bool durable) override {
    return inner_.Commit(batch, durable);
  }

 protected:
  MetadataStore& inner() const { return inner_; }

 private:
  const std::unique_ptr<MetadataStore> owned_;
  MetadataStore& inner_;
};

}  // namespace ebb::storage
