// ExtentWriter keeps a bounded number of extents in flight to the capacity devices.
//
// The caller fills one buffer while the devices write the others. Buffers are made once and kept: a
// first touch of their memory costs more than the copy. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "storage-backend/device/device.h"

namespace ebb::storage {

class ExtentWriter {
 public:
  static constexpr int kParallelismMax = 16;

  // Extents are at most `extent_bytes_max` long.
  ExtentWriter(std::vector<Device*> devices, uint64_t extent_bytes_max);
  ~ExtentWriter();  // waits for what is in flight

  // A buffer to build the next extent in; waits until fewer than `parallelism` a device are in
  // flight, over all devices together. Fails when a write has failed since the last Finish or
  // Abandon.
  absl::StatusOr<std::span<std::byte>> Buffer(int parallelism);
  // Starts writing `bytes`, which lie in the buffer that Buffer returned last.
  void Write(size_t device, uint64_t offset, std::span<const std::byte> bytes);
  // Waits for all writes, then flushes the devices written to, at the same time. OK: all durable.
  absl::Status Finish();
  // Waits for all writes and forgets how they went.
  void Abandon();

 private:
  struct Slot {
    AlignedBuffer buffer;
    Io io;
    bool in_flight = false;
  };

  IoQueue& Queue(size_t device);
  // Takes finished transfers; waits for at least one when `wait`.
  void Collect(bool wait);
  size_t InFlight() const;

  const std::vector<Device*> devices_;
  const uint64_t extent_bytes_max_;
  std::vector<std::unique_ptr<IoQueue>> queues_;  // made on first use
  std::vector<std::unique_ptr<Slot>> slots_;
  Slot* current_ = nullptr;
  std::vector<bool> written_;  // by device, since the last Finish
  absl::Status failure_;
};

}  // namespace ebb::storage
