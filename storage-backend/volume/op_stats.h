// OpStats counts requests and their latencies without making threads wait for each other.
//
// Each thread records into one of a few stripes, each with a lock of its own that is nearly never
// contended; Sum adds them up. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "storage-backend/volume/volume.h"

namespace ebb::storage {

enum class Op : uint8_t { kRead, kWrite, kFlush, kTrim };
inline constexpr size_t kOpCount = 4;

// Where the blocks of a read came from.
struct ReadSources {
  uint64_t dram_blocks = 0;
  uint64_t cache_blocks = 0;
  uint64_t capacity_blocks = 0;
  uint64_t unmapped_blocks = 0;
  uint64_t readahead_blocks = 0;
};

class OpStats {
 public:
  void Record(Op op, uint64_t bytes, uint64_t latency_ns, bool ok);
  void RecordRead(uint64_t bytes, uint64_t latency_ns, bool ok, const ReadSources& sources);
  void RecordThrottle(uint64_t ns);

  // Adds everything to `metrics`.
  void Sum(VolumeMetrics& metrics);
  // Requests so far: all, and reads.
  uint64_t reads() const;
  uint64_t writes() const;

 private:
  struct alignas(64) Stripe {
    mutable std::mutex mutex;
    std::array<OpCounters, kOpCount> ops;
    ReadSources sources;
    uint64_t throttle_ns = 0;
    uint64_t throttled_writes = 0;
  };
  static constexpr size_t kStripeCount = 8;

  Stripe& OwnStripe();
  uint64_t Count(Op op) const;

  std::array<Stripe, kStripeCount> stripes_;
};

}  // namespace ebb::storage
