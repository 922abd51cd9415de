// Device is the only door between the store and a disk.
//
// Everything above goes through it, so that tests can swap in MemDevice (fast), FaultyDevice (fails
// on cue, cuts the power) or ShapedDevice (service times of a named model) for UringDevice (real,
// O_DIRECT). Offsets and sizes are bytes and multiples of block_bytes(); buffers are aligned to
// 4096 (base/aligned_buffer.h). Thread-safe. A failed Flush is final: the device is fenced, and
// every later Write or Flush fails too, because what the kernel dropped cannot be known
// (fsyncgate). Reads go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::storage {

// One asynchronous transfer. The submitter owns it and its buffer until Reap hands it back.
struct Io {
  enum class Kind : uint8_t { kRead, kWrite, kFlush };
  Kind kind = Kind::kRead;
  uint64_t offset = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  void* context = nullptr;  // the submitter's own
  absl::Status status{};    // set before Reap returns it; a short transfer is an error
};

// Transfers of one submitter in flight to one device. Not thread-safe: one queue a thread, or a
// lock.
class IoQueue {
 public:
  virtual ~IoQueue() = default;
  // Starts `io`; it may complete at once, but is handed back only by Reap. At most depth() in
  // flight.
  virtual void Submit(Io* io) = 0;
  // The same as Submit for each of `ios`, with one system call where the device has such.
  virtual void SubmitAll(std::span<Io* const> ios) {
    for (Io* io : ios) Submit(io);
  }
  // Finished transfers in completion order; waits until at least `min_completions` of those in
  // flight are done.
  virtual std::vector<Io*> Reap(size_t min_completions) = 0;
  virtual size_t in_flight() const = 0;
  virtual size_t depth() const = 0;
  // A hint: this queue's transfers will mostly be from and to `memory`, which outlives it. Devices
  // that can pin it once instead of for each transfer do. At most once a queue, before any Submit.
  virtual void RegisterMemory(std::span<std::byte> memory) { (void)memory; }
};

class Device {
 public:
  virtual ~Device() = default;

  // Fills `out` from `offset`. A short read is an error, never a partial success.
  virtual absl::Status Read(uint64_t offset, std::span<std::byte> out) = 0;
  // Accepts `in`. OK does not mean durable: see Flush.
  virtual absl::Status Write(uint64_t offset, std::span<const std::byte> in) = 0;
  // Returns once every write that returned OK before this call would survive power loss.
  virtual absl::Status Flush() = 0;
  // Gives the range back to the file system or flash; it reads as zeroes or as before. A hint: OK
  // where unsupported.
  virtual absl::Status Discard(uint64_t offset, uint64_t bytes) = 0;

  virtual std::unique_ptr<IoQueue> MakeQueue(size_t depth) = 0;

  virtual uint64_t size_bytes() const = 0;
  virtual uint32_t block_bytes() const = 0;
  // Reads are copies from memory: they wait for nothing, and their targets need no alignment.
  virtual bool in_memory() const { return false; }
  // Bytes the device really occupies: allocated blocks of a file, size_bytes() of a block device.
  virtual absl::StatusOr<uint64_t> AllocatedBytes() = 0;
  // "file /x/cache.img, 1 GiB, shaped as nvme": for reports; a shaped device must say so.
  virtual std::string Describe() const = 0;
};

}  // namespace ebb::storage
