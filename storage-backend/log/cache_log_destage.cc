// CacheLog's side of destage: what may leave, and how segments come back.
#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "storage-backend/log/cache_log.h"

namespace ebb::storage {
namespace {

// Blocks handled in one go under the lock, so that clients are not held up.
constexpr size_t kLockSlice = 512;

}  // namespace

absl::StatusOr<std::vector<LogMap::DirtyBlock>> CacheLog::CollectDirty(size_t max_count,
                                                                       double keep_fill) {
  for (const bool flushed : {false, true}) {
    {
      const std::lock_guard lock(mutex_);
      const auto keep = static_cast<size_t>(keep_fill * map_.write_segment_limit());
      auto collected = map_.CollectDirty(max_count, keep, durable_sequence_, durable_end_block_);
      if (!collected.blocks.empty() || flushed || !collected.held_back) {
        return std::move(collected.blocks);
      }
    }
    EBB_RETURN_IF_ERROR(Flush());
  }
  return std::vector<LogMap::DirtyBlock>{};
}

absl::Status CacheLog::MarkClean(std::span<const LogMap::DirtyBlock> blocks) {
  if (!lost_.empty()) {
    // They were written again, and that version is stored now.
    std::vector<uint64_t> found;
    for (const LogMap::DirtyBlock& block : blocks) {
      if (lost_.Contains(block.block)) found.push_back(block.block);
    }
    EBB_RETURN_IF_ERROR(ClearLost(found));
  }
  while (!blocks.empty()) {
    const auto slice = blocks.first(std::min(blocks.size(), kLockSlice));
    const std::lock_guard lock(mutex_);
    for (const LogMap::DirtyBlock& block : slice) map_.MarkClean(block);
    dirty_blocks_.store(map_.dirty_blocks(), std::memory_order_relaxed);
    blocks = blocks.subspan(slice.size());
  }
  return absl::OkStatus();
}

absl::Status CacheLog::ClearLost(const std::vector<uint64_t>& blocks) {
  if (blocks.empty()) return absl::OkStatus();
  EBB_RETURN_IF_ERROR(lost_.Commit(blocks, /*lost=*/false));
  const std::lock_guard lock(mutex_);
  lost_.Apply(blocks, /*lost=*/false);
  return absl::OkStatus();
}

absl::Status CacheLog::MarkLost(std::span<const LogMap::DirtyBlock> blocks) {
  std::vector<uint64_t> numbers;
  for (const LogMap::DirtyBlock& block : blocks) numbers.push_back(block.block);
  EBB_RETURN_IF_ERROR(lost_.Commit(numbers, /*lost=*/true));
  const std::lock_guard lock(mutex_);
  lost_.Apply(numbers, /*lost=*/true);
  for (const LogMap::DirtyBlock& block : blocks) {
    map_.Forget(block);
    if (options_.on_change) options_.on_change(block.block, 1);
  }
  dirty_blocks_.store(map_.dirty_blocks(), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OverlayRange>> CacheLog::PendingRanges(size_t max_count) {
  for (const bool flushed : {false, true}) {
    {
      const std::lock_guard lock(mutex_);
      auto ranges = map_.overlay().Collect(LogOrder(durable_sequence_, 0xff), max_count);
      if (!ranges.empty() || flushed || map_.overlay().empty()) return ranges;
    }
    EBB_RETURN_IF_ERROR(Flush());
  }
  return std::vector<OverlayRange>{};
}

absl::Status CacheLog::RangesApplied(std::span<const OverlayRange> ranges) {
  if (!lost_.empty()) {
    std::vector<uint64_t> found;
    for (const OverlayRange& range : ranges) {
      const auto some = lost_.In(range.first, range.end - range.first);
      found.insert(found.end(), some.begin(), some.end());
    }
    EBB_RETURN_IF_ERROR(ClearLost(found));
  }
  const std::lock_guard lock(mutex_);
  for (const OverlayRange& range : ranges) {
    map_.overlay().Cut(range.first, range.end, range.order);
  }
  overlay_ranges_.store(map_.overlay().size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

bool CacheLog::HasWork() {
  const std::lock_guard lock(mutex_);
  return map_.dirty_blocks() > 0 || !map_.overlay().empty();
}

absl::StatusOr<bool> CacheLog::ReleaseClean() {
  Lock lock(mutex_);
  if (map_.OldestWaitsForFlush(durable_sequence_)) {
    lock.unlock();
    EBB_RETURN_IF_ERROR(Flush());
    lock.lock();
  }
  const size_t clean_before = map_.clean_count();
  map_.AdvanceClean(durable_sequence_, /*sealed=*/!active_);
  UpdateFillLocked();
  const size_t clean = map_.clean_count();
  // Room to write comes from segments becoming clean, also when all of them are kept for reads.
  const bool advanced = clean > clean_before;
  cleaned_bytes_.fetch_add(
      (clean - clean_before) * uint64_t{map_.geometry().segment_blocks} * kCacheBlockBytes,
      std::memory_order_relaxed);
  if (advanced) space_changed_.notify_all();
  const size_t releases = clean > clean_segments_kept_ ? clean - clean_segments_kept_ : 0;
  Tail tail = tail_;
  tail.replay_from = map_.FirstSequence(releases, next_sequence_);
  tail.dirty_from = map_.FirstSequence(clean, next_sequence_);
  const bool all_clean = map_.dirty_blocks() == 0 && map_.overlay().empty();
  if (releases == 0 && !(all_clean && tail.dirty_from != tail_.dirty_from)) return advanced;

  lock.unlock();
  EBB_RETURN_IF_ERROR(WriteTail(*options_.metadata, tail));
  lock.lock();
  tail_ = tail;
  for (size_t i = 0; i < releases; ++i) map_.ReleaseOldest();
  space_changed_.notify_all();
  return advanced || releases > 0;
}

absl::Status CacheLog::BeginSession() {
  Lock lock(mutex_);
  tail_.epoch = options_.epoch;
  // The superblock's flush has made durable whatever was replayed.
  tail_.durable_below = next_sequence_;
  const Tail tail = tail_;
  lock.unlock();
  return WriteTail(*options_.metadata, tail);
}

absl::Status CacheLog::Close() {
  EBB_RETURN_IF_ERROR(Flush());
  Lock lock(mutex_);
  map_.AdvanceClean(durable_sequence_, /*sealed=*/true);
  tail_.dirty_from = map_.FirstSequence(map_.clean_count(), next_sequence_);
  tail_.durable_below = next_sequence_;
  const Tail tail = tail_;
  lock.unlock();
  return WriteTail(*options_.metadata, tail);
}

}  // namespace ebb::storage
