#include "storage-backend/device/io_check.h"

#include "fmt/format.h"

namespace ebb::storage {

absl::Status CheckTransfer(uint64_t offset, uint64_t bytes, const std::byte* data,
                           uint64_t device_bytes) {
  if (offset % kDeviceBlockBytes != 0 || bytes % kDeviceBlockBytes != 0) {
    return absl::InvalidArgumentError(fmt::format("{} bytes at {} are not whole {}-byte blocks",
                                                  bytes, offset, kDeviceBlockBytes));
  }
  if (offset > device_bytes || bytes > device_bytes - offset) {
    return absl::OutOfRangeError(fmt::format("{} bytes at {} reach beyond the device's {} bytes",
                                             bytes, offset, device_bytes));
  }
  if (reinterpret_cast<uintptr_t>(data) % kDeviceBlockBytes != 0) {
    return absl::InvalidArgumentError(
        fmt::format("the buffer is not aligned to {} bytes", kDeviceBlockBytes));
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
