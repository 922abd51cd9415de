// The verbs that change the volume: life of a write from the client's bytes to the log.
#include <algorithm>
#include <cstring>

#include "base/may_block.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/policy/background_pace.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {
namespace {

// A range entry of the log names at most this many blocks, so that the lock is not held for long.
constexpr uint64_t kRangeBlocksMax = 1 << 15;
// A write that finds the log full and destage failing gives up after this long.
constexpr uint64_t kStuckNs = 30 * kNsPerS;

}  // namespace

absl::Status VolumeImpl::Write(uint64_t offset, std::span<const std::byte> in, bool fua) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  uint64_t sequence = 0;
  absl::Status status = CheckRange(offset, in.size());
  if (status.ok()) status = WriteBytes(offset, in, begin_ns, &sequence);
  if (status.ok() && fua) status = log_->FlushTo(sequence);
  return Finish(Op::kWrite, in.size(), begin_ns, std::move(status));
}

absl::Status VolumeImpl::WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  uint64_t sequence = 0;
  absl::Status status = CheckRange(offset, bytes);
  if (status.ok()) status = WriteZeroBytes(offset, bytes, &sequence);
  if (status.ok() && fua) status = log_->FlushTo(sequence);
  return Finish(Op::kTrim, bytes, begin_ns, std::move(status));
}

absl::Status VolumeImpl::Trim(uint64_t offset, uint64_t bytes, bool fua) {
  const uint64_t begin_ns = clock_.MonotonicNs();
  uint64_t sequence = 0;
  absl::Status status = CheckRange(offset, bytes);
  // Trim is advice: partial blocks at the ends keep what they hold.
  const uint64_t first = (offset + kBlockBytes - 1) / kBlockBytes;
  const uint64_t end = (offset + bytes) / kBlockBytes;
  if (status.ok() && first < end) {
    status = AppendRange(EntryKind::kTrim, first, end - first, &sequence);
  }
  if (status.ok() && fua) status = log_->FlushTo(sequence);
  return Finish(Op::kTrim, bytes, begin_ns, std::move(status));
}

absl::Status VolumeImpl::Flush() {
  const uint64_t begin_ns = clock_.MonotonicNs();
  return Finish(Op::kFlush, 0, begin_ns, log_->Flush());
}

absl::Status VolumeImpl::WriteBytes(uint64_t offset, std::span<const std::byte> in, uint64_t now_ns,
                                    uint64_t* sequence) {
  const auto head = static_cast<uint32_t>(offset % kBlockBytes);
  if (head != 0 || in.size() < kBlockBytes) {
    if (in.empty()) return absl::OkStatus();
    const auto bytes = static_cast<uint32_t>(std::min<size_t>(in.size(), kBlockBytes - head));
    EBB_RETURN_IF_ERROR(MergeBlock(offset / kBlockBytes, head, bytes, in.first(bytes), sequence));
    return WriteBytes(offset + bytes, in.subspan(bytes), now_ns, sequence);
  }
  const size_t whole = in.size() / kBlockBytes * kBlockBytes;
  EBB_RETURN_IF_ERROR(WriteBlocks(offset / kBlockBytes, in.first(whole), now_ns, sequence));
  if (whole == in.size()) return absl::OkStatus();
  return WriteBytes(offset + whole, in.subspan(whole), now_ns, sequence);
}

absl::Status VolumeImpl::WriteBlocks(uint64_t first_block, std::span<const std::byte> data,
                                     uint64_t now_ns, uint64_t* sequence) {
  while (!data.empty()) {
    const uint64_t blocks = std::min<uint64_t>(data.size() / kBlockBytes, kWriteBlocksMax);
    Throttle(blocks * kBlockBytes);
    EBB_ASSIGN_OR_RETURN(
        const uint32_t taken,
        AppendSome(first_block, data.first(blocks * kBlockBytes), now_ns, sequence));
    if (taken == 0) EBB_RETURN_IF_ERROR(MakeRoom(now_ns));
    first_block += taken;
    data = data.subspan(size_t{taken} * kBlockBytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> VolumeImpl::AppendSome(uint64_t first_block,
                                                std::span<const std::byte> data, uint64_t now_ns,
                                                uint64_t* sequence) {
  const uint64_t blocks = data.size() / kBlockBytes;
  admitting_blocks_.fetch_add(blocks, std::memory_order_relaxed);
  absl::Status status = CheckSpace(first_block, blocks);
  uint32_t taken = 0;
  if (status.ok()) {
    const auto appended = log_->Append(first_block, data, now_ns);
    status = appended.status();
    if (appended.ok() && appended->count > 0) {
      taken = appended->count;
      *sequence = appended->sequence;
    }
  }
  admitting_blocks_.fetch_sub(blocks, std::memory_order_relaxed);
  EBB_RETURN_IF_ERROR(status);
  return taken;
}

// The block is read, merged and appended on condition that it did not change in between: no lock is
// held during the read, and a whole-block write at the same time cannot be lost.
absl::Status VolumeImpl::MergeBlock(uint64_t block, uint32_t begin, uint32_t bytes,
                                    std::span<const std::byte> in, uint64_t* sequence) {
  std::unique_ptr<ReadScratch> scratch = TakeScratch();
  absl::Status status = absl::AbortedError("not tried yet");
  const uint64_t since_ns = clock_.MonotonicNs();
  while (absl::IsAborted(status)) {
    uint32_t generation = 0;
    {
      const std::lock_guard lock(log_->mutex());
      generation = log_->GenerationLocked(block);
    }
    status = ReadBlocks(block, scratch->block.span(), /*client=*/false, *scratch, nullptr);
    if (!status.ok()) break;
    if (in.empty()) {
      std::memset(scratch->block.data() + begin, 0, bytes);
    } else {
      std::memcpy(scratch->block.data() + begin, in.data(), bytes);
    }
    Throttle(kBlockBytes);
    status = CheckSpace(block, 1);
    if (!status.ok()) break;
    const auto appended = log_->Append(block, scratch->block.span(), since_ns, &generation);
    status = appended.status();
    if (status.ok() && appended->count == 0) {
      status = MakeRoom(since_ns);
      if (status.ok()) status = absl::AbortedError("there was no room");
    } else if (status.ok()) {
      *sequence = appended->sequence;
    }
  }
  GiveScratch(std::move(scratch));
  return status;
}

absl::Status VolumeImpl::WriteZeroBytes(uint64_t offset, uint64_t bytes, uint64_t* sequence) {
  const auto head = static_cast<uint32_t>(offset % kBlockBytes);
  if (bytes > 0 && (head != 0 || bytes < kBlockBytes)) {
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(bytes, kBlockBytes - head));
    EBB_RETURN_IF_ERROR(MergeBlock(offset / kBlockBytes, head, part, {}, sequence));
    return WriteZeroBytes(offset + part, bytes - part, sequence);
  }
  const uint64_t blocks = bytes / kBlockBytes;
  if (blocks == 0) return absl::OkStatus();
  EBB_RETURN_IF_ERROR(AppendRange(EntryKind::kZeroes, offset / kBlockBytes, blocks, sequence));
  const uint64_t whole = blocks * kBlockBytes;
  return whole == bytes ? absl::OkStatus()
                        : WriteZeroBytes(offset + whole, bytes - whole, sequence);
}

absl::Status VolumeImpl::AppendRange(EntryKind kind, uint64_t first_block, uint64_t count,
                                     uint64_t* sequence) {
  const uint64_t now_ns = clock_.MonotonicNs();
  while (count > 0) {
    const uint64_t part = std::min(count, kRangeBlocksMax);
    while (log_->overlay_ranges() >= kOverlayRangesMax) {
      EBB_RETURN_IF_ERROR(MakeRoom(now_ns));
      if (config_.background_threads) clock_.SleepUntilNs(clock_.MonotonicNs() + kNsPerMs);
    }
    EBB_ASSIGN_OR_RETURN(const CacheLog::Appended appended,
                         log_->AppendRange(kind, first_block, part, now_ns));
    if (appended.count == 0) {
      EBB_RETURN_IF_ERROR(MakeRoom(now_ns));
      continue;
    }
    *sequence = appended.sequence;
    first_block += part;
    count -= part;
  }
  return absl::OkStatus();
}

uint64_t VolumeImpl::HoldUntilNs(uint64_t bytes) {
  const int softness = throttle_softness_.load(std::memory_order_relaxed);
  const int watermark = destage_watermark_.load(std::memory_order_relaxed);
  const double fill = log_->fill();
  // Without a background nothing would drain while we wait.
  if (!config_.background_threads || fill <= WriteThrottle::StartFill(softness, watermark))
    return 0;
  const uint64_t now_ns = clock_.MonotonicNs();
  uint64_t until_ns = 0;
  {
    const std::lock_guard lock(throttle_mutex_);
    until_ns = throttle_.Admit({.now_ns = now_ns,
                                .bytes = bytes,
                                .fill = fill,
                                .drain_bytes_per_s = destager_->drain_bytes_per_s(),
                                .softness = softness,
                                .watermark_percent = watermark});
  }
  if (until_ns <= now_ns + kHoldWorthNs) return 0;
  stats_.RecordThrottle(until_ns - now_ns);
  return until_ns;
}

void VolumeImpl::Throttle(uint64_t bytes) {
  const uint64_t until_ns = HoldUntilNs(bytes);
  if (until_ns == 0) return;
  MayBlock();
  clock_.SleepUntilNs(until_ns);
}

absl::Status VolumeImpl::CheckSpace(uint64_t first_block, uint64_t blocks) {
  const auto fits = [&](uint64_t added) {
    const uint64_t promised = log_->dirty_blocks() + added;
    return promised * kBlockBytes <= tier_->FreeBytes();
  };
  if (fits(std::max(blocks, admitting_blocks_.load(std::memory_order_relaxed)))) {
    return absl::OkStatus();
  }
  MayBlock();
  // Near full, look closer: a block that is dirty already needs no more room, and blocks of a batch
  // that is being stored count twice until it is done.
  const std::lock_guard step(step_mutex_);
  uint64_t added = 0;
  {
    const std::lock_guard lock(log_->mutex());
    for (uint64_t i = 0; i < blocks; ++i) added += log_->IsDirtyLocked(first_block + i) ? 0 : 1;
  }
  if (added == 0 || fits(added)) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "no space: {} are promised to writes in the cache and {} are left on the "
      "capacity devices",
      FormatBytes(log_->dirty_blocks() * kBlockBytes), FormatBytes(tier_->FreeBytes())));
}

absl::Status VolumeImpl::MakeRoom(uint64_t waiting_since_ns) {
  MayBlock();
  if (!config_.background_threads) {
    EBB_ASSIGN_OR_RETURN(const bool worked, RunBackgroundStep());
    if (worked) return absl::OkStatus();
    return absl::InternalError("the cache log is full and nothing in it can be destaged");
  }
  Kick();
  log_->WaitForSpace();
  EBB_RETURN_IF_ERROR(log_->Fence());
  const std::lock_guard lock(background_mutex_);
  if (!background_error_.ok() && clock_.MonotonicNs() - waiting_since_ns > kStuckNs) {
    return Annotate(background_error_, "the cache is full and does not drain");
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
