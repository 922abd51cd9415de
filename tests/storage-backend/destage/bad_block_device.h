// A device in memory some of whose blocks cannot be read, and that counts its reads.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/sync_queue.h"

namespace ebb::storage {

class BadBlockDevice final : public Device {
 public:
  explicit BadBlockDevice(uint64_t size_bytes) : inner_(size_bytes) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    for (const uint64_t block : bad) {
      if (block * 4096 >= offset && block * 4096 < offset + out.size()) {
        return absl::InternalError("EIO");
      }
    }
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
  std::string Describe() const override { return "bad blocks"; }

  std::set<uint64_t> bad;
  uint64_t reads = 0;

 private:
  MemDevice inner_;
};

}  // namespace ebb::storage
