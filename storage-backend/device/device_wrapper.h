// DeviceWrapper hands every verb on to another Device: the base of those that change one or two.
//
// Its queue goes through this device's own Read, Write and Flush, so that what a wrapper changes
// holds for queued transfers too. Thread-safe as the inner device is.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "storage-backend/device/device.h"
#include "storage-backend/device/sync_queue.h"

namespace ebb::storage {

class DeviceWrapper : public Device {
 public:
  explicit DeviceWrapper(Device& inner) : inner_(inner) {}  // borrowed
  explicit DeviceWrapper(std::unique_ptr<Device> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    return inner_.Read(offset, out);
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override {
    return inner_.Write(offset, in);
  }
  absl::Status Flush() override { return inner_.Flush(); }
  absl::Status Discard(uint64_t offset, uint64_t bytes) override {
    return inner_.Discard(offset, bytes);
  }
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override {
    return std::make_unique<SyncQueue>(*this, depth);
  }
  uint64_t size_bytes() const override { return inner_.size_bytes(); }
  uint32_t block_bytes() const override { return inner_.block_bytes(); }
  absl::StatusOr<uint64_t> AllocatedBytes() override { return inner_.AllocatedBytes(); }
  std::string Describe() const override { return inner_.Describe(); }
  // in_memory() stays false: most wrappers take their time, or want to be asked as a disk is.

 protected:
  Device& inner() const { return inner_; }

 private:
  const std::unique_ptr<Device> owned_;
  Device& inner_;
};

}  // namespace ebb::storage
