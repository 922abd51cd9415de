// UringDevice is a file or block device, opened O_DIRECT and for this process alone.
//
// Blocking verbs are pread, pwrite and fdatasync on the caller's thread; MakeQueue gives an
// io_uring of its own. Where the file system refuses O_DIRECT (tmpfs), transfers are buffered and
// durability comes from fdatasync all the same; where the kernel refuses io_uring (some
// containers), and for files in memory, queues do their transfers one by one inside Submit.
// Describe says so. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"

namespace ebb::storage {

class UringDevice final : public Device {
 public:
  // Opens what is at `path` and locks it: FailedPrecondition when another process (or this one) has
  // it open as a device. NotFound when missing, PermissionDenied, InvalidArgument when it is no
  // regular file or block device, empty or not whole 4 KiB blocks, OutOfRange when it is shorter
  // than `expected_bytes` (0: any size). Read-only, it shares the lock with other readers and
  // nothing can be written.
  enum class Access : uint8_t { kReadWrite, kReadOnly };
  static absl::StatusOr<std::unique_ptr<UringDevice>> Open(const std::string& path,
                                                           uint64_t expected_bytes = 0,
                                                           Access access = Access::kReadWrite);
  ~UringDevice() override;
  UringDevice(const UringDevice&) = delete;
  UringDevice& operator=(const UringDevice&) = delete;

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override;
  absl::Status Flush() override;
  // Punches a hole into a file, BLKDISCARD on a block device.
  absl::Status Discard(uint64_t offset, uint64_t bytes) override;
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override;
  uint64_t size_bytes() const override { return size_bytes_; }
  uint32_t block_bytes() const override;
  bool in_memory() const override { return traits_.in_memory; }
  absl::StatusOr<uint64_t> AllocatedBytes() override;
  std::string Describe() const override;

  const std::string& path() const { return path_; }

 private:
  class Queue;

  struct Traits {
    bool block_device = false;
    bool direct = true;
    bool in_memory = false;  // a file of tmpfs: transfers are copies
    bool io_uring = true;
  };

  UringDevice(std::string path, int fd, uint64_t size_bytes, Traits traits);

  absl::Status Check(const char* verb, uint64_t offset, uint64_t bytes,
                     const std::byte* data) const;
  // OK, or why no write may follow.
  absl::Status CheckFence() const;
  // `error_number` ended a flush: fences the device.
  absl::Status FailFlush(int error_number);
  absl::Status ReadFrom(uint64_t offset, std::byte* data, size_t bytes, size_t done) const;
  absl::Status WriteFrom(uint64_t offset, const std::byte* data, size_t bytes, size_t done) const;
  absl::Status TransferError(const char* verb, uint64_t offset, size_t bytes,
                             int error_number) const;

  const std::string path_;
  const int fd_;
  const uint64_t size_bytes_;
  const Traits traits_;
  std::atomic<bool> fenced_{false};
};

// Makes a sparse file of `bytes` (a multiple of 4096) for a new node, mode 0600, its directory
// entry durable. AlreadyExists rather than touch what is there.
absl::Status CreateDeviceFile(const std::string& path, uint64_t bytes);

}  // namespace ebb::storage
