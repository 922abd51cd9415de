// What happens between requests: destage, release of segments, growth of the read cache,
// compaction.
#include <algorithm>
#include <chrono>

#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/policy/background_pace.h"
#include "storage-backend/policy/compaction_pacing.h"
#include "storage-backend/policy/fill_rate.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kErrorPauseNs = kNsPerS;
constexpr size_t kReadCacheChunksAStep = 4;

}  // namespace

void VolumeImpl::Kick() {
  {
    const std::lock_guard lock(background_mutex_);
    kicked_ = true;
  }
  background_wake_.notify_all();
}

StoreOptions VolumeImpl::CurrentStoreOptions() const {
  const Setting setting = CurrentSetting();
  return {.compression = setting.As<Compression>(KnobId::kCompression),
          .unit_bytes = static_cast<uint32_t>(setting[KnobId::kCompressionUnitBytes]),
          .dedup = setting.As<Dedup>(KnobId::kDedup),
          .parallelism = static_cast<int>(setting[KnobId::kDestageParallelism]),
          .threads = static_cast<int>(setting[KnobId::kDestageParallelism])};
}

uint64_t VolumeImpl::BatchBytes() const {
  return DestagePacing::BatchBytes(
      static_cast<uint64_t>(CurrentSetting()[KnobId::kDestageBatchBytes]),
      log_->write_space_bytes());
}

absl::StatusOr<bool> VolumeImpl::DestageStep(double keep_fill, bool quiet) {
  uint64_t bytes = BatchBytes();
  StoreOptions store = CurrentStoreOptions();
  // Nobody waits behind a larger batch, and its flush and commit are paid for once.
  if (quiet) {
    store.parallelism = std::max(store.parallelism, kQuietParallelism);
    bytes = QuietBatchBytes(bytes);
  }
  return destager_->RunBatch({.bytes_max = static_cast<size_t>(bytes),
                              .keep_fill = keep_fill,
                              .store = store,
                              .behind = log_->fill() > kBehindFill,
                              .keep_going = [this] { return !stopping_; }});
}

bool VolumeImpl::ResizeReadCacheStep(size_t chunks_max) {
  for (size_t i = 0; i < chunks_max; ++i) {
    std::unique_lock lock(log_->mutex());
    if (read_cache_.WantsToShrink()) {
      const auto unused = read_cache_.RemoveChunk();
      lock.unlock();                     // the memory is given back without the lock
      if (unused.empty()) return false;  // a reader still uses what was removed: later
      continue;
    }
    if (!read_cache_.WantsToGrow()) return false;
    lock.unlock();
    auto chunk = std::make_unique<ReadCache::Chunk>();
    lock.lock();
    if (read_cache_.WantsToGrow()) read_cache_.AddChunk(std::move(chunk));
  }
  return true;
}

absl::StatusOr<bool> VolumeImpl::RunBackgroundStep() {
  const std::lock_guard step(step_mutex_);
  log_->Tick(clock_.MonotonicNs(), kGroupAgeNs);
  ResizeReadCacheStep(kReadCacheChunksAStep);
  scrubber_->Step(clock_.MonotonicNs());
  EBB_ASSIGN_OR_RETURN(const bool destaged, DestageStep(/*keep_fill=*/0, /*quiet=*/false));
  if (destaged) return true;
  return tier_->CompactStep();
}

void VolumeImpl::NoteBackground(const absl::StatusOr<bool>& result) {
  const std::lock_guard lock(background_mutex_);
  // A kind of trouble gets one line until something was done again: each try fails elsewhere.
  if (!result.ok() && result.status().code() != told_background_) {
    fmt::print(stderr, "ebb: background: {}\n", result.status().ToString());
    told_background_ = result.status().code();
  }
  if (result.ok() && *result) told_background_ = absl::StatusCode::kOk;
  background_error_ = result.status();
}

void VolumeImpl::BackgroundLoop() {
  FillRate fill_rate;
  uint64_t error_until_ns = 0;
  uint64_t last_request_ns = clock_.MonotonicNs();
  uint64_t requests_seen = 0;
  while (!stopping_) {
    uint64_t now_ns = clock_.MonotonicNs();
    const uint64_t group_due_ns = log_->Tick(now_ns, kGroupAgeNs);
    const bool resizing = ResizeReadCacheStep(kReadCacheChunksAStep);
    const Setting setting = CurrentSetting();
    const uint64_t reads = stats_.reads();
    const uint64_t writes = stats_.writes();
    if (reads + writes != requests_seen) last_request_ns = now_ns;
    requests_seen = reads + writes;

    const DestagePacing::Decision decision = pacing_.Decide(
        {.now_ns = now_ns,
         .fill = log_->fill(),
         .fill_per_s = fill_rate.Update(now_ns, log_->appended_blocks(), log_->write_space_bytes()),
         .has_work = log_->HasWork(),
         .drain = drains_ > 0 || log_->overlay_ranges() > kOverlayRangesMax / 2,
         .watermark_percent = static_cast<int>(setting[KnobId::kDestageWatermark]),
         .politeness = static_cast<int>(setting[KnobId::kDestagePoliteness]),
         .reads = reads,
         .writes = writes});
    bool worked = false;
    if (now_ns >= error_until_ns) {
      const std::lock_guard step(step_mutex_);
      absl::StatusOr<bool> result = false;
      if (decision.run) {
        result = DestageStep(decision.keep_fill, now_ns - last_request_ns > kQuietNs);
        pacing_.OnBatchDone(now_ns, clock_.MonotonicNs());
      } else {
        result = log_->ReleaseClean();
        const auto politeness = static_cast<int>(setting[KnobId::kCompactionPoliteness]);
        if (result.ok() && !*result && now_ns - last_request_ns >= CompactionIdleNs(politeness)) {
          result = tier_->CompactStep();
        }
      }
      worked = result.ok() && *result;
      if (result.ok() || !absl::IsCancelled(result.status())) NoteBackground(result);
      if (!result.ok()) error_until_ns = clock_.MonotonicNs() + kErrorPauseNs;
    }
    if (worked || resizing) continue;

    now_ns = clock_.MonotonicNs();
    uint64_t wait_ns = std::max<uint64_t>(decision.wait_ns, kNsPerMs);
    if (group_due_ns != 0) {
      wait_ns = std::min(wait_ns, group_due_ns > now_ns ? group_due_ns - now_ns : kNsPerMs);
    }
    std::unique_lock lock(background_mutex_);
    background_wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns),
                              [this] { return kicked_ || stopping_.load(); });
    kicked_ = false;
  }
}

absl::Status VolumeImpl::Drain(const std::function<bool(uint64_t dirty_bytes)>& progress) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  ++drains_;
  absl::Status status;
  uint64_t since_ns = clock_.MonotonicNs();
  while (status.ok() && log_->HasWork()) {
    if (progress && !progress(log_->dirty_blocks() * kBlockBytes)) {
      status = absl::CancelledError("drain was cancelled");
      break;
    }
    if (!config_.background_threads) {
      status = RunBackgroundStep().status();
      continue;
    }
    Kick();
    std::unique_lock lock(background_mutex_);
    background_wake_.wait_for(lock, kLook, [this] { return stopping_.load(); });
    if (stopping_) status = absl::CancelledError("the volume is being closed");
    if (background_error_.ok()) {
      since_ns = clock_.MonotonicNs();
    } else if (clock_.MonotonicNs() - since_ns > 5 * kErrorPauseNs) {
      status = Annotate(background_error_, "drain");
    }
  }
  --drains_;
  if (progress && status.ok()) progress(0);
  return status;
}

absl::Status VolumeImpl::Close() {
  stopping_ = true;
  Kick();
  if (background_.joinable()) background_.join();
  scrubber_->Stop();
  if (closed_) return absl::OkStatus();
  EBB_RETURN_IF_ERROR(log_->Close());
  EBB_RETURN_IF_ERROR(devices_.Stamp(identity_, identity_.epoch, log_->dirty_blocks() * kBlockBytes,
                                     /*clean=*/true));
  closed_ = true;
  return absl::OkStatus();
}

}  // namespace ebb::storage
