// ReadOnlyDevice and ReadOnlyMetadata let nothing through that would change what is behind them.
//
// A flush or a discard is answered with OK and not done: both are hints or promises about changes,
// and there are none.
#pragma once

#include "storage-backend/device/device_wrapper.h"
#include "storage-backend/metadata/metadata_wrapper.h"

namespace ebb::storage {

class ReadOnlyDevice final : public DeviceWrapper {
 public:
  using DeviceWrapper::DeviceWrapper;
  absl::Status Write(uint64_t, std::span<const std::byte>) override {
    return absl::FailedPreconditionError(Describe() + " is open for reading only");
  }
  absl::Status Flush() override { return absl::OkStatus(); }
  absl::Status Discard(uint64_t, uint64_t) override { return absl::OkStatus(); }
};

class ReadOnlyMetadata final : public MetadataWrapper {
 public:
  using MetadataWrapper::MetadataWrapper;
  absl::Status Commit(const MetadataBatch&, bool) override {
    return absl::FailedPreconditionError("the metadata is open for reading only");
  }
};

}  // namespace ebb::storage
