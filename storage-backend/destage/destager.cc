#include "storage-backend/destage/destager.h"

#include <algorithm>
#include <cstring>
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
    : log_(log), tier_(tier), clock_(clock), queue_(cache.MakeQueue(kReadDepth)), cache_(cache) {}

absl::StatusOr<bool> Destager::RemoveRanges() {
  EBB_ASSIGN_OR_RETURN(const std::vector<OverlayRange> ranges, log_.PendingRanges(kRangesAtOnce));
  for (const OverlayRange& range : ranges) {
    EBB_RETURN_IF_ERROR(
        Annotate(tier_.Remove(range.first, range.end - range.first), "destage: trim"));
  }
  EBB_RETURN_IF_ERROR(log_.RangesApplied(ranges));
  return !ranges.empty();
}

absl::Status Destager::ReadBlocks(const std::vector<LogMap::DirtyBlock>& batch) {
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

absl::StatusOr<bool> Destager::DropDamaged(std::vector<LogMap::DirtyBlock>& blocks) {
  std::vector<LogMap::DirtyBlock> good;
  std::vector<LogMap::DirtyBlock> lost;
  bool some_damaged = false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::span<std::byte> content = buffer_.span(i * kCacheBlockBytes, kCacheBlockBytes);
    bool right = Crc32c(content) == blocks[i].crc32c;
    if (!right) {
      some_damaged = true;
      counters_.checksum_errors.fetch_add(1, std::memory_order_relaxed);
      EBB_RETURN_IF_ERROR(Annotate(
          cache_.Read(uint64_t{blocks[i].cache_block} * kCacheBlockBytes, content), "destage"));
      right = Crc32c(content) == blocks[i].crc32c;
    }
    if (!right) {
      lost.push_back(blocks[i]);
      continue;
    }
    // Closes the gaps that lost ones leave.
    if (!lost.empty()) {
      std::memcpy(buffer_.data() + good.size() * kCacheBlockBytes, content.data(), content.size());
    }
    good.push_back(blocks[i]);
  }
  blocks = std::move(good);
  if (lost.empty()) return some_damaged;
  counters_.lost_blocks.fetch_add(lost.size(), std::memory_order_relaxed);
  EBB_RETURN_IF_ERROR(log_.MarkLost(lost));
  return true;
}

absl::Status Destager::StoreBlocks(const std::vector<LogMap::DirtyBlock>& blocks,
                                   const Batch& batch, StoreReport& report) {
  to_store_.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    to_store_.push_back({.block = blocks[i].block,
                         .data = buffer_.data() + i * kCacheBlockBytes,
                         .crc32c = blocks[i].crc32c});
  }
  std::sort(to_store_.begin(), to_store_.end(),
            [](const StoreBlock& a, const StoreBlock& b) { return a.block < b.block; });
  return tier_.Store(to_store_, batch.store, &report, batch.keep_going);
}

absl::StatusOr<bool> Destager::RunBatch(const Batch& batch) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  EBB_ASSIGN_OR_RETURN(const bool removed, RemoveRanges());
  EBB_ASSIGN_OR_RETURN(std::vector<LogMap::DirtyBlock> blocks,
                       log_.CollectDirty(batch.bytes_max / kCacheBlockBytes, batch.keep_fill));
  if (blocks.empty()) {
    EBB_ASSIGN_OR_RETURN(const bool released, log_.ReleaseClean());
    return removed || released;
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const LogMap::DirtyBlock& a, const LogMap::DirtyBlock& b) {
              return a.cache_block < b.cache_block;
            });
  EBB_RETURN_IF_ERROR(ReadBlocks(blocks));
  StoreReport report;
  absl::Status stored = StoreBlocks(blocks, batch, report);
  if (absl::IsDataLoss(stored)) {
    // Store verifies what it copies, so the blocks are looked at one by one only when it objects.
    EBB_ASSIGN_OR_RETURN(const bool some_damaged, DropDamaged(blocks));
    if (some_damaged) stored = StoreBlocks(blocks, batch, report);
  }
  EBB_RETURN_IF_ERROR(Annotate(stored, "destage"));
  EBB_RETURN_IF_ERROR(log_.MarkClean(blocks));
  EBB_RETURN_IF_ERROR(log_.ReleaseClean().status());
  Count(blocks.size(), report, std::max<uint64_t>(clock_.MonotonicNs() - begin_ns, 1));
  return true;
}

void Destager::Count(size_t blocks, const StoreReport& report, uint64_t took_ns) {
  counters_.batches.fetch_add(1, std::memory_order_relaxed);
  counters_.blocks.fetch_add(blocks, std::memory_order_relaxed);
  counters_.deduplicated_blocks.fetch_add(report.deduplicated_blocks, std::memory_order_relaxed);
  counters_.raw_bytes.fetch_add(report.raw_bytes, std::memory_order_relaxed);
  counters_.stored_bytes.fetch_add(report.stored_bytes, std::memory_order_relaxed);
  counters_.written_bytes.fetch_add(report.written_bytes, std::memory_order_relaxed);
  const double rate =
      static_cast<double>(blocks) * kCacheBlockBytes * kNsPerS / static_cast<double>(took_ns);
  const double before = drain_bytes_per_s();
  drain_bytes_per_s_.store(before == 0 ? rate : 0.7 * before + 0.3 * rate,
                           std::memory_order_relaxed);
}

}  // namespace ebb::storage
