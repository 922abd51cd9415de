#include "storage-backend/destage/destager.h"

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr size_t kReadDepth = 16;
constexpr size_t kRunBlocksMax = 256;
constexpr size_t kRangesAtOnce = 256;

}  // namespace

Destager::Destager(CacheLog& log, CapacityTier& tier, Device& cache, Clock& clock)
    : log_(log), tier_(tier), clock_(clock), queue_(cache.MakeQueue(kReadDepth)) {}

absl::StatusOr<bool> Destager::RemoveRanges() {
  EBB_ASSIGN_OR_RETURN(const std::vector<OverlayRange> ranges, log_.PendingRanges(kRangesAtOnce));
  for (const OverlayRange& range : ranges) {
    EBB_RETURN_IF_ERROR(
        Annotate(tier_.Remove(range.first, range.end - range.first), "destage: trim"));
  }
  log_.RangesApplied(ranges);
  return !ranges.empty();
}

absl::Status Destager::ReadBatch(const std::vector<LogMap::DirtyBlock>& batch) {
  if (buffer_.size() < batch.size() * kCacheBlockBytes) {
    buffer_ = AlignedBuffer(batch.size() * kCacheBlockBytes);
  }
  runs_.clear();
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool joins = !runs_.empty() && runs_.back().count < kRunBlocksMax &&
                       batch[i].cache_block == batch[i - 1].cache_block + 1;
    if (joins) {
      ++runs_.back().count;
    } else {
      runs_.push_back({.first = i, .count = 1, .io = {}});
    }
  }
  absl::Status status;
  size_t started = 0;
  while (started < runs_.size() || queue_->in_flight() > 0) {
    while (status.ok() && started < runs_.size() && queue_->in_flight() < queue_->depth()) {
      Run& run = runs_[started++];
      run.io = {.kind = Io::Kind::kRead,
                .offset = uint64_t{batch[run.first].cache_block} * kCacheBlockBytes,
                .data = buffer_.data() + run.first * kCacheBlockBytes,
                .bytes = run.count * kCacheBlockBytes};
      queue_->Submit(&run.io);
    }
    if (queue_->in_flight() == 0) break;
    for (const Io* io : queue_->Reap(1)) {
      if (status.ok()) status = io->status;
    }
  }
  return Annotate(status, "destage: cache device");
}

std::vector<StoreBlock> Destager::Verified(const std::vector<LogMap::DirtyBlock>& batch) {
  std::vector<StoreBlock> blocks;
  blocks.reserve(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::byte* data = buffer_.data() + i * kCacheBlockBytes;
    if (Crc32c({data, kCacheBlockBytes}) != batch[i].crc32c) {
      // It stays dirty, so that its reader is told and no older version comes to light.
      counters_.checksum_errors.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    blocks.push_back({.block = batch[i].block, .data = data, .crc32c = batch[i].crc32c});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const StoreBlock& a, const StoreBlock& b) { return a.block < b.block; });
  return blocks;
}

absl::StatusOr<bool> Destager::RunBatch(size_t batch_bytes, const StoreOptions& options,
                                        const std::function<bool()>& keep_going) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  EBB_ASSIGN_OR_RETURN(const bool removed, RemoveRanges());
  EBB_ASSIGN_OR_RETURN(std::vector<LogMap::DirtyBlock> batch,
                       log_.CollectDirty(batch_bytes / kCacheBlockBytes));
  if (batch.empty()) {
    EBB_ASSIGN_OR_RETURN(const bool released, log_.ReleaseClean());
    return removed || released;
  }
  std::sort(batch.begin(), batch.end(),
            [](const LogMap::DirtyBlock& a, const LogMap::DirtyBlock& b) {
              return a.cache_block < b.cache_block;
            });
  EBB_RETURN_IF_ERROR(ReadBatch(batch));
  const std::vector<StoreBlock> blocks = Verified(batch);
  if (blocks.size() < batch.size()) {
    return absl::DataLossError(
        "destage: dirty blocks on the cache device do not match their checksums");
  }
  StoreReport report;
  EBB_RETURN_IF_ERROR(Annotate(tier_.Store(blocks, options, &report, keep_going), "destage"));
  log_.MarkClean(batch);
  EBB_RETURN_IF_ERROR(log_.ReleaseClean().status());

  counters_.batches.fetch_add(1, std::memory_order_relaxed);
  counters_.blocks.fetch_add(batch.size(), std::memory_order_relaxed);
  counters_.deduplicated_blocks.fetch_add(report.deduplicated_blocks, std::memory_order_relaxed);
  counters_.raw_bytes.fetch_add(report.raw_bytes, std::memory_order_relaxed);
  counters_.stored_bytes.fetch_add(report.stored_bytes, std::memory_order_relaxed);
  counters_.written_bytes.fetch_add(report.written_bytes, std::memory_order_relaxed);
  const uint64_t took_ns = std::max<uint64_t>(clock_.MonotonicNs() - begin_ns, 1);
  const double rate =
      static_cast<double>(batch.size()) * kCacheBlockBytes * kNsPerS / static_cast<double>(took_ns);
  const double before = drain_bytes_per_s();
  drain_bytes_per_s_.store(before == 0 ? rate : 0.7 * before + 0.3 * rate,
                           std::memory_order_relaxed);
  return true;
}

}  // namespace ebb::storage
