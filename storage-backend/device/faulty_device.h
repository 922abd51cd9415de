// FaultyDisk is a simulated disk that fails on cue and loses power, for crash and fault tests.
//
// It outlives the Device handles that Open gives out, as a real disk outlives the program. Writes
// and discards stay un-flushed until a Flush; when the power goes, each of them is independently
// kept, dropped or torn at 512 bytes, in any order. Queued transfers run inside Reap in a seeded
// random order. Everything is determined by the seeds and the calls: log_hash proves it.
//
//   auto power = std::make_shared<PowerSource>();
//   auto disk = FaultyDisk::Make({.name = "cache", .size_bytes = 4 * kMiB, .power = power});
//   power->CutAtWrite(17);
//   ... run the store over disk->Open() until it reports Unavailable, destroy it ...
//   power->Restore();
//   disk->Reboot(seed);
//   ... open the store again over disk->Open() and compare ...
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "storage-backend/device/device.h"
#include "storage-backend/device/sparse_image.h"

namespace ebb::storage {

// The power of all disks of a node: they lose it at the same moment.
class PowerSource {
 public:
  // The power fails during the nth write or discard (counted from 1 over all disks since this
  // object was made): that one may survive in any part but is not acknowledged, nothing after it
  // happens.
  void CutAtWrite(uint64_t nth);
  // The power fails now.
  void Cut();
  void Restore();
  bool on() const;
  uint64_t writes() const;

  // For FaultyDisk: counts one write.
  enum class Moment { kOn, kFailing, kOff };
  Moment CountWrite();

 private:
  mutable std::mutex mutex_;
  bool on_ = true;
  uint64_t writes_ = 0;
  uint64_t cut_at_write_ = 0;  // 0: never
};

class FaultyDisk final : public std::enable_shared_from_this<FaultyDisk> {
 public:
  struct Options {
    std::string name = "disk";
    uint64_t size_bytes = 0;  // a multiple of 4096
    uint64_t seed = 1;
    std::shared_ptr<PowerSource> power = nullptr;  // none: a source of its own
  };
  enum class Fault {
    kIoError,  // EIO; a write leaves each of its sectors old or new; a flush fences the disk
    kNoSpace,  // ENOSPC; nothing written
    kShort,    // only the first half was transferred
    kLost,     // the device is gone: nothing happens (see LoseAfter)
  };
  struct Counts {
    uint64_t reads = 0;
    uint64_t writes = 0;
    uint64_t flushes = 0;
    uint64_t discards = 0;
    uint64_t faults = 0;  // injected so far, power cuts not counted
  };

  static std::shared_ptr<FaultyDisk> Make(const Options& options);

  // A handle to the disk; it fails with Unavailable after a power cut or Reboot.
  std::unique_ptr<Device> Open();

  // The nth transfer of `kind` from now on (1: the next one) fails so; may be set many times.
  void FailNth(Io::Kind kind, uint64_t nth, Fault fault);
  // The device is gone after so many more transfers of any kind, until Reboot.
  void LoseAfter(uint64_t transfers);
  // Flips bits of the byte at `offset` where it lies, in the durable image and the current one.
  void FlipBits(uint64_t offset, uint8_t mask);

  // Power is back: the disk now holds what survived of the un-flushed writes, as `seed` decides.
  // The fence and the faults that were set are gone. With the power never cut: a cut right now.
  void Reboot(uint64_t seed);

  Counts counts() const;
  // A hash of every transfer so far: kind, place, data written, outcome.
  uint64_t log_hash() const;
  // Data that a power cut now could take; discards are not counted.
  uint64_t unflushed_writes() const;
  const std::shared_ptr<PowerSource>& power() const { return options_.power; }

 private:
  class Handle;
  class Queue;

  struct Unflushed {
    uint64_t offset;
    std::vector<std::byte> data;
    bool is_discard;
  };

  explicit FaultyDisk(const Options& options);

  absl::Status Read(uint64_t generation, uint64_t offset, std::span<std::byte> out);
  absl::Status Write(uint64_t generation, uint64_t offset, std::span<const std::byte> in);
  absl::Status Flush(uint64_t generation);
  absl::Status Discard(uint64_t generation, uint64_t offset, uint64_t bytes);
  uint64_t NextRandom(uint64_t bound);

  // The rest needs mutex_.
  absl::Status CheckAlive(uint64_t generation) const;
  absl::Status CheckFence() const;
  // The fault set for this transfer of `kind`, if any; counts the transfer.
  bool TakeFault(Io::Kind kind, Fault* fault);
  absl::Status FaultStatus(Fault fault, const char* verb, uint64_t offset, uint64_t bytes);
  // Writes or discards: `data` becomes current and un-flushed, unless power or a fault is against.
  absl::Status Change(uint64_t generation, bool is_discard, uint64_t offset,
                      std::span<const std::byte> data);
  void Store(uint64_t offset, std::span<const std::byte> data, bool is_discard);
  // The data with some of its sectors left as they are now.
  std::vector<std::byte> Torn(uint64_t offset, std::span<const std::byte> data);
  absl::Status Log(const char* verb, uint64_t offset, std::span<const std::byte> data,
                   uint64_t bytes, absl::Status outcome);

  const Options options_;
  mutable std::mutex mutex_;
  Rng rng_;
  uint64_t generation_ = 0;
  bool fenced_ = false;
  SparseImage durable_;
  SparseImage current_;
  std::deque<Unflushed> unflushed_;
  std::map<std::pair<Io::Kind, uint64_t>, Fault> faults_;  // by kind and count of that kind
  std::map<Io::Kind, uint64_t> transfers_;                 // by kind
  uint64_t transfers_until_lost_ = ~uint64_t{0};
  Counts counts_;
  uint64_t log_hash_ = 0;
};

}  // namespace ebb::storage
