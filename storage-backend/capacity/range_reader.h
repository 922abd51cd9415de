// Reads scattered ranges of the capacity devices with few transfers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"

namespace ebb::storage {

struct ReadRange {
  uint8_t device = 0;
  uint64_t offset = 0;  // any alignment
  uint64_t bytes = 0;
  size_t tag = 0;               // the caller's own
  std::byte* target = nullptr;  // 4096-aligned: where the bytes may be put directly
};

// Sorts `ranges` by place and reads them, near ones together (the gap between two is read over when
// that is cheaper than another transfer). Each is visited once: with its bytes, valid during the
// call and at `target` when they were put there, or with why they could not be read. A transfer for
// several ranges that fails is repeated one by one, so that a bad sector costs only its own range.
// A visitor's error ends the reading and is returned. Thread-safe; blocking.
absl::Status ReadRanges(
    std::span<Device* const> devices, std::vector<ReadRange>& ranges,
    const std::function<absl::Status(const ReadRange&, absl::StatusOr<std::span<const std::byte>>)>&
        visit);

}  // namespace ebb::storage
