// A device in memory some of whose blocks cannot be read, and that counts its reads.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "storage-backend/device/device_wrapper.h"
#include "storage-backend/device/mem_device.h"

namespace ebb::storage {

class BadBlockDevice final : public DeviceWrapper {
 public:
  explicit BadBlockDevice(uint64_t size_bytes)
      : DeviceWrapper(std::make_unique<MemDevice>(size_bytes)) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    for (const uint64_t block : bad) {
      if (block * 4096 >= offset && block * 4096 < offset + out.size()) {
        return absl::InternalError("EIO");
      }
    }
    return inner().Read(offset, out);
  }
  std::string Describe() const override { return "bad blocks"; }

  std::set<uint64_t> bad;
  uint64_t reads = 0;
};

}  // namespace ebb::storage
