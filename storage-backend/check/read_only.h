// ReadOnlyDevice and ReadOnlyMetadata let nothing through that would change what is behind them.
//
// A flush or a discard is answered with OK and not done: both are hints or promises about changes,
// and there are none.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage-backend/device/device.h"
#include "storage-backend/device/sync_queue.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class ReadOnlyDevice final : public Device {
 public:
  explicit ReadOnlyDevice(Device& inner) : inner_(inner) {}
  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    return inner_.Read(offset, out);
  }
  absl::Status Write(uint64_t, std::span<const std::byte>) override { return Refusal(); }
  absl::Status Flush() override { return absl::OkStatus(); }
  absl::Status Discard(uint64_t, uint64_t) override { return absl::OkStatus(); }
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override {
    return std::make_unique<SyncQueue>(*this, depth);
  }
  uint64_t size_bytes() const override { return inner_.size_bytes(); }
  uint32_t block_bytes() const override { return inner_.block_bytes(); }
  absl::StatusOr<uint64_t> AllocatedBytes() override { return inner_.AllocatedBytes(); }
  std::string Describe() const override { return inner_.Describe(); }

 private:
  absl::Status Refusal() const {
    return absl::FailedPreconditionError(inner_.Describe() + " is open for reading only");
  }
  Device& inner_;
};

class ReadOnlyMetadata final : public MetadataStore {
 public:
  explicit ReadOnlyMetadata(MetadataStore& inner) : inner_(inner) {}
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
  absl::Status Commit(const MetadataBatch&, bool) override {
    return absl::FailedPreconditionError("the metadata is open for reading only");
  }

 private:
  MetadataStore& inner_;
};

}  // namespace ebb::storage
