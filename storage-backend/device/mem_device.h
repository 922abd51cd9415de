// MemDevice is a Device in memory, touched at creation: for tests and for benches without a disk.
//
// Nothing survives the process; Flush is a no-op that never fails. Thread-safe: transfers hold a
// lock for each 64 KiB they touch, so two overlapping writes may interleave at that grain, as on a
// disk.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/aligned_buffer.h"
#include "storage-backend/device/device.h"

namespace ebb::storage {

class MemDevice final : public Device {
 public:
  // size_bytes is a multiple of 4096; filled with zeroes.
  explicit MemDevice(uint64_t size_bytes);

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override;
  absl::Status Flush() override { return absl::OkStatus(); }
  // The range reads as zeroes afterwards.
  absl::Status Discard(uint64_t offset, uint64_t bytes) override;
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override;
  uint64_t size_bytes() const override { return memory_.size(); }
  uint32_t block_bytes() const override;
  absl::StatusOr<uint64_t> AllocatedBytes() override { return size_bytes(); }
  std::string Describe() const override;

 private:
  absl::Status Check(uint64_t offset, uint64_t bytes, const std::byte* data) const;
  template <typename Visit>
  void ForEachChunk(uint64_t offset, uint64_t bytes, const Visit& visit);

  AlignedBuffer memory_;
  std::array<std::mutex, 64> chunk_locks_;
};

}  // namespace ebb::storage
