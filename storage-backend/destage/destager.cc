#include "storage-backend/destage/destager.h"

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr size_t kRangesAtOnce = 256;
constexpr uint64_t kUnreadablePauseNs = 10 * kNsPerS;
constexpr double kBatchMemory = 0.7;  // weight of the past against a new batch in the drain rate

bool WantsReduction(const StoreOptions& options) {
  return options.compression != Compression::kOff || options.dedup != Dedup::kOff;
}

}  // namespace

Destager::Destager(CacheLog& log, CapacityTier& tier, Device& cache, Clock& clock)
    : log_(log), tier_(tier), clock_(clock), cache_(cache), reader_(cache) {}

absl::StatusOr<bool> Destager::RemoveRanges() {
  EBB_ASSIGN_OR_RETURN(const std::vector<OverlayRange> ranges, log_.PendingRanges(kRangesAtOnce));
  for (const OverlayRange& range : ranges) {
    EBB_RETURN_IF_ERROR(
        Annotate(tier_.Remove(range.first, range.end - range.first), "destage: trim"));
  }
  EBB_RETURN_IF_ERROR(log_.RangesApplied(ranges));
  return !ranges.empty();
}

absl::StatusOr<Destager::Chosen> Destager::Choose(const Batch& batch) {
  const uint64_t now_ns = clock_.MonotonicNs();
  absl::erase_if(unreadable_until_ns_, [&](const auto& one) { return one.second <= now_ns; });
  const size_t count = batch.bytes_max / kCacheBlockBytes;
  EBB_ASSIGN_OR_RETURN(std::vector<LogMap::DirtyBlock> blocks,
                       log_.CollectDirty(2 * count + unreadable_until_ns_.size(), batch.keep_fill));
  if (!unreadable_until_ns_.empty()) {
    std::erase_if(blocks, [&](const LogMap::DirtyBlock& block) {
      return unreadable_until_ns_.contains(block.cache_block);
    });
  }
  counters_.unreadable_blocks.store(unreadable_until_ns_.size(), std::memory_order_relaxed);
  Chosen chosen;
  const auto middle =
      blocks.begin() + static_cast<ptrdiff_t>(std::min(std::max<size_t>(count, 1), blocks.size()));
  chosen.now.assign(blocks.begin(), middle);
  chosen.next.assign(middle, blocks.end());
  for (auto* const part : {&chosen.now, &chosen.next}) {
    std::sort(part->begin(), part->end(),
              [](const LogMap::DirtyBlock& a, const LogMap::DirtyBlock& b) {
                return a.cache_block < b.cache_block;
              });
  }
  return chosen;
}

absl::StatusOr<std::vector<DirtyReader::Block>> Destager::ReadBlocks(
    const std::vector<LogMap::DirtyBlock>& blocks) {
  DirtyReader::Result read = reader_.Read(blocks);
  const uint64_t until_ns = clock_.MonotonicNs() + kUnreadablePauseNs;
  for (const LogMap::DirtyBlock& block : read.unreadable) {
    unreadable_until_ns_[block.cache_block] = until_ns;
  }
  counters_.unreadable_blocks.store(unreadable_until_ns_.size(), std::memory_order_relaxed);
  if (!read.unreadable.empty()) {
    unreadable_status_ = Annotate(
        read.status, fmt::format("destage: block {} of the volume, at block {} of the cache device",
                                 read.unreadable.back().block, read.unreadable.back().cache_block));
  }
  if (read.blocks.empty()) return unreadable_status_;
  return std::move(read.blocks);
}

absl::StatusOr<bool> Destager::DropDamaged(std::vector<DirtyReader::Block>& blocks) {
  std::vector<LogMap::DirtyBlock> lost;
  bool some_damaged = false;
  for (DirtyReader::Block& block : blocks) {
    const std::span<std::byte> content(block.data, kCacheBlockBytes);
    if (Crc32c(content) == block.dirty.crc32c) continue;
    some_damaged = true;
    counters_.checksum_errors.fetch_add(1, std::memory_order_relaxed);
    EBB_RETURN_IF_ERROR(Annotate(
        cache_.Read(uint64_t{block.dirty.cache_block} * kCacheBlockBytes, content), "destage"));
    if (Crc32c(content) == block.dirty.crc32c) continue;
    lost.push_back(block.dirty);
    block.data = nullptr;
  }
  if (lost.empty()) return some_damaged;
  std::erase_if(blocks, [](const DirtyReader::Block& block) { return block.data == nullptr; });
  counters_.lost_blocks.fetch_add(lost.size(), std::memory_order_relaxed);
  EBB_RETURN_IF_ERROR(log_.MarkLost(lost));
  return true;
}

absl::Status Destager::StoreBlocks(const std::vector<DirtyReader::Block>& blocks,
                                   const Batch& batch, StoreReport& report) {
  to_store_.clear();
  for (const DirtyReader::Block& block : blocks) {
    to_store_.push_back(
        {.block = block.dirty.block, .data = block.data, .crc32c = block.dirty.crc32c});
  }
  std::sort(to_store_.begin(), to_store_.end(),
            [](const StoreBlock& a, const StoreBlock& b) { return a.block < b.block; });
  // Asked at the end of each extent: the devices have something to do just then.
  return tier_.Store(to_store_, batch.store, &report, [&] {
    reader_.Advance();
    return !batch.keep_going || batch.keep_going();
  });
}

Destager::Batch Destager::Decide(const Batch& batch) {
  Batch decided = batch;
  if (WantsReduction(batch.store) && !reduction_.Reduce(batch.behind)) {
    decided.store.compression = Compression::kOff;
    decided.store.dedup = Dedup::kOff;
  }
  return decided;
}

absl::StatusOr<bool> Destager::RunBatch(const Batch& asked) {
  const Batch batch = Decide(asked);
  const uint64_t begin_ns = clock_.MonotonicNs();
  EBB_ASSIGN_OR_RETURN(const bool removed, RemoveRanges());
  EBB_ASSIGN_OR_RETURN(Chosen chosen, Choose(batch));
  if (chosen.now.empty()) {
    EBB_ASSIGN_OR_RETURN(const bool released, log_.ReleaseClean());
    if (!removed && !released && !unreadable_until_ns_.empty()) return unreadable_status_;
    return removed || released;
  }
  EBB_ASSIGN_OR_RETURN(std::vector<DirtyReader::Block> blocks, ReadBlocks(chosen.now));
  reader_.Prefetch(std::move(chosen.next));
  StoreReport report;
  absl::Status stored = StoreBlocks(blocks, batch, report);
  if (absl::IsDataLoss(stored)) {
    // Store verifies what it copies, so the blocks are looked at one by one only when it objects.
    EBB_ASSIGN_OR_RETURN(const bool some_damaged, DropDamaged(blocks));
    if (some_damaged) stored = StoreBlocks(blocks, batch, report);
  }
  EBB_RETURN_IF_ERROR(Annotate(stored, "destage"));
  // Before the blocks are clean: whoever sees nothing dirty any more sees all of it counted.
  const bool reduced = WantsReduction(batch.store);
  const bool held_to_pace = WantsReduction(asked.store) && asked.behind;
  CountStored(blocks.size(), report);
  if (held_to_pace && !reduced) {
    counters_.unreduced_blocks.fetch_add(blocks.size(), std::memory_order_relaxed);
  }
  std::vector<LogMap::DirtyBlock> clean;
  clean.reserve(blocks.size());
  for (const DirtyReader::Block& block : blocks) clean.push_back(block.dirty);
  EBB_RETURN_IF_ERROR(log_.MarkClean(clean));
  EBB_RETURN_IF_ERROR(log_.ReleaseClean().status());
  const uint64_t took_ns = std::max<uint64_t>(clock_.MonotonicNs() - begin_ns, 1);
  if (held_to_pace) reduction_.Done(reduced, blocks.size(), took_ns);
  CountPace(blocks.size(), took_ns);
  return true;
}

void Destager::CountStored(size_t blocks, const StoreReport& report) {
  counters_.batches.fetch_add(1, std::memory_order_relaxed);
  counters_.blocks.fetch_add(blocks, std::memory_order_relaxed);
  counters_.deduplicated_blocks.fetch_add(report.deduplicated_blocks, std::memory_order_relaxed);
  counters_.raw_bytes.fetch_add(report.raw_bytes, std::memory_order_relaxed);
  counters_.stored_bytes.fetch_add(report.stored_bytes, std::memory_order_relaxed);
  counters_.written_bytes.fetch_add(report.written_bytes, std::memory_order_relaxed);
}

void Destager::CountPace(size_t blocks, uint64_t took_ns) {
  const uint64_t cleaned_bytes = log_.cleaned_bytes();
  const auto add = [](double& sum, double value) { sum = kBatchMemory * sum + value; };
  add(lately_.moved_bytes, static_cast<double>(blocks) * kCacheBlockBytes);
  add(lately_.freed_bytes, static_cast<double>(cleaned_bytes - cleaned_bytes_seen_));
  add(lately_.seconds, static_cast<double>(took_ns) / kNsPerS);
  cleaned_bytes_seen_ = cleaned_bytes;
  // What was moved is free soon, even when its segment is not yet.
  drain_bytes_per_s_.store(std::max(lately_.moved_bytes, lately_.freed_bytes) / lately_.seconds,
                           std::memory_order_relaxed);
}

}  // namespace ebb::storage
