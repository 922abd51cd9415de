// Destager moves dirty blocks from the cache log to the capacity tier, one batch a call.
//
// A batch: ranges that were trimmed are removed, then the oldest durable dirty blocks are read from
// the log (in the order they lie there, neighbours together), verified, sorted by volume block and
// stored; then they are clean, and segments of which nothing is needed come back. A block that was
// overwritten meanwhile stays dirty in its new place.
//
// When to run and how fast is DestagePacing's business (storage-backend/policy). One thread at a
// time; the counters may be read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/device/device.h"
#include "storage-backend/log/cache_log.h"

namespace ebb::storage {

class Destager {
 public:
  struct Counters {
    std::atomic<uint64_t> batches{0};
    std::atomic<uint64_t> blocks{0};  // taken out of the log
    std::atomic<uint64_t> deduplicated_blocks{0};
    std::atomic<uint64_t> raw_bytes{0};
    std::atomic<uint64_t> stored_bytes{0};
    std::atomic<uint64_t> written_bytes{0};
    std::atomic<uint64_t> checksum_errors{0};
  };

  Destager(CacheLog& log, CapacityTier& tier, Device& cache, Clock& clock);

  // False when there was nothing to do. `keep_going`, when set, is asked now and then: false
  // abandons the batch with Cancelled.
  absl::StatusOr<bool> RunBatch(size_t batch_bytes, const StoreOptions& options,
                                const std::function<bool()>& keep_going = nullptr);

  const Counters& counters() const { return counters_; }
  // Bytes of the log a second that batches set free lately, pauses not counted; 0 before the first.
  double drain_bytes_per_s() const { return drain_bytes_per_s_.load(std::memory_order_relaxed); }

 private:
  // Neighbours in the log, read together.
  struct Run {
    size_t first = 0;  // position in the batch
    size_t count = 0;
    Io io;
  };

  absl::StatusOr<bool> RemoveRanges();
  // Reads the batch (sorted by cache block) into buffer_, block i at i * 4096.
  absl::Status ReadBatch(const std::vector<LogMap::DirtyBlock>& batch);
  // The blocks of the batch whose checksum is right, ascending by volume block.
  std::vector<StoreBlock> Verified(const std::vector<LogMap::DirtyBlock>& batch);

  CacheLog& log_;
  CapacityTier& tier_;
  Clock& clock_;
  std::unique_ptr<IoQueue> queue_;
  AlignedBuffer buffer_;  // grows with the batch, never shrinks: a first touch is dear
  std::vector<Run> runs_;
  Counters counters_;
  std::atomic<double> drain_bytes_per_s_{0};
};

}  // namespace ebb::storage
