// BorrowedDevice lets a volume, which owns its devices, use one that outlives it.
#pragma once

#include <memory>
#include <string>

#include "storage-backend/device/device.h"

namespace ebb::fidelity_bench {

class BorrowedDevice final : public storage::Device {
 public:
  explicit BorrowedDevice(storage::Device& device) : device_(device) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    return device_.Read(offset, out);
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override {
    return device_.Write(offset, in);
  }
  absl::Status Flush() override { return device_.Flush(); }
  absl::Status Discard(uint64_t offset, uint64_t bytes) override {
    return device_.Discard(offset, bytes);
  }
  std::unique_ptr<storage::IoQueue> MakeQueue(size_t depth) override {
    return device_.MakeQueue(depth);
  }
  uint64_t size_bytes() const override { return device_.size_bytes(); }
  uint32_t block_bytes() const override { return device_.block_bytes(); }
  bool in_memory() const override { return device_.in_memory(); }
  absl::StatusOr<uint64_t> AllocatedBytes() override { return device_.AllocatedBytes(); }
  std::string Describe() const override { return device_.Describe(); }

 private:
  storage::Device& device_;
};

}  // namespace ebb::fidelity_bench
