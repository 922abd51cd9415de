// Destager moves dirty blocks from the cache log to the capacity tier, one batch a call.
//
// A batch: ranges that were trimmed are removed, then the oldest durable dirty blocks are read from
// the log (in the order they lie there, neighbours together), sorted by volume block and stored,
// while those of the next batch are read ahead; then they are clean, and segments of which nothing
// is needed come back. A block that was overwritten meanwhile stays dirty in its new place; one
// that cannot be read stays dirty too and is passed over for a while.
//
// When to run and how fast is DestagePacing's business (storage-backend/policy). One thread at a
// time; the counters may be read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/destage/dirty_reader.h"
#include "storage-backend/device/device.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/policy/reduction_choice.h"

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
    std::atomic<uint64_t> lost_blocks{0};
    // Dirty blocks that the cache device could not read lately: a gauge.
    std::atomic<uint64_t> unreadable_blocks{0};
    // Stored without the compression and deduplication that were asked for, to catch up.
    std::atomic<uint64_t> unreduced_blocks{0};
  };

  struct Batch {
    size_t bytes_max = 4 << 20;
    double keep_fill = 0;  // share of the write space, the newest, to leave alone
    StoreOptions store;
    bool behind = false;  // the log is nearly full: reduce only when that is not slower
    // Asked now and then, when set: false abandons the batch with Cancelled.
    std::function<bool()> keep_going;
  };

  Destager(CacheLog& log, CapacityTier& tier, Device& cache, Clock& clock);

  // Makes ready for batches of so many bytes, so that the first one does not wait for memory.
  void Reserve(size_t batch_bytes) { reader_.Reserve(batch_bytes); }
  // False when there was nothing to do.
  absl::StatusOr<bool> RunBatch(const Batch& batch);

  const Counters& counters() const { return counters_; }
  // Bytes of the log a second that batches set free lately, superseded blocks among them, pauses
  // not counted; 0 before the first.
  double drain_bytes_per_s() const { return drain_bytes_per_s_.load(std::memory_order_relaxed); }

 private:
  absl::StatusOr<bool> RemoveRanges();
  // The oldest dirty blocks in the order they lie in the log: this batch, and the next one.
  struct Chosen {
    std::vector<LogMap::DirtyBlock> now;
    std::vector<LogMap::DirtyBlock> next;
  };
  absl::StatusOr<Chosen> Choose(const Batch& batch);
  // Reads the blocks; leaves out those that cannot be read, and fails when none can.
  absl::StatusOr<std::vector<DirtyReader::Block>> ReadBlocks(
      const std::vector<LogMap::DirtyBlock>& blocks);
  // Keeps the blocks whose content is right; the others are declared lost, after a second look at
  // the device. Whether some was not right at first.
  absl::StatusOr<bool> DropDamaged(std::vector<DirtyReader::Block>& blocks);
  absl::Status StoreBlocks(const std::vector<DirtyReader::Block>& blocks, const Batch& batch,
                           StoreReport& report);
  // The batch as it is to be stored.
  Batch Decide(const Batch& batch);
  void CountStored(size_t blocks, const StoreReport& report);
  // How fast blocks move and room comes free.
  void CountPace(size_t blocks, uint64_t took_ns);

  CacheLog& log_;
  CapacityTier& tier_;
  Clock& clock_;
  Device& cache_;
  DirtyReader reader_;
  ReductionChoice reduction_;
  std::vector<StoreBlock> to_store_;
  // Cache blocks that could not be read, until when they are passed over.
  absl::flat_hash_map<uint32_t, uint64_t> unreadable_until_ns_;
  absl::Status unreadable_status_;  // of the last one
  Counters counters_;
  // Of the latest batches, the older the less.
  struct Lately {
    double moved_bytes = 0;
    double freed_bytes = 0;  // of the log; comes in whole segments
    double seconds = 0;
  };
  Lately lately_;
  uint64_t cleaned_bytes_seen_ = 0;
  std::atomic<double> drain_bytes_per_s_{0};
};

}  // namespace ebb::storage
