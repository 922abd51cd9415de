#include "storage-backend/volume/volume_impl.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/policy/background_pace.h"
#include "storage-backend/volume/volume_queue.h"

namespace ebb::storage {
namespace {

std::vector<Device*> Borrow(const std::vector<std::unique_ptr<Device>>& devices) {
  std::vector<Device*> borrowed;
  for (const auto& device : devices) borrowed.push_back(device.get());
  return borrowed;
}

}  // namespace

VolumeImpl::VolumeImpl(const VolumeConfig& config, VolumeParts parts, Clock& clock)
    : config_(config),
      clock_(clock),
      parts_(std::move(parts)),
      watch_(config.group.index, parts_.cache, parts_.capacity),
      devices_(parts_.cache.get(), Borrow(parts_.capacity), parts_.metadata.get(), parts_.make_uuid,
               config.group) {}

absl::StatusOr<std::unique_ptr<VolumeImpl>> VolumeImpl::Open(
    const VolumeConfig& config, VolumeParts parts, Clock& clock,
    const std::function<void(double)>& progress) {
  EBB_CHECK(parts.cache != nullptr && parts.metadata != nullptr);
  auto volume = std::unique_ptr<VolumeImpl>(new VolumeImpl(config, std::move(parts), clock));
  EBB_RETURN_IF_ERROR(volume->Start(progress));
  return volume;
}

absl::Status VolumeImpl::Start(const std::function<void(double)>& progress) {
  EBB_ASSIGN_OR_RETURN(identity_, config_.may_format ? devices_.CheckOrFormat(config_.volume_bytes,
                                                                              config_.segment_bytes)
                                                     : devices_.Check(config_.volume_bytes));
  const uint64_t epoch = identity_.epoch + 1;
  EBB_ASSIGN_OR_RETURN(
      log_,
      CacheLog::Open({.device = parts_.cache.get(),
                      .metadata = parts_.metadata.get(),
                      .clock = &clock_,
                      .node_uuid = GroupUuid(identity_.uuid, config_.group.index),
                      .epoch = epoch,
                      .geometry = identity_.geometry,
                      .on_change = [this](uint64_t first,
                                          uint64_t count) { read_cache_.Erase(first, count); }},
                     progress));
  EBB_ASSIGN_OR_RETURN(tier_, parts_.open_tier(Borrow(parts_.capacity), parts_.metadata.get(),
                                               GroupUuid(identity_.uuid, config_.group.index)));
  // Nothing was written so far. The stamp flushes the cache device too, and with it whatever of the
  // replayed log a dying process had left in the device's volatile cache.
  EBB_RETURN_IF_ERROR(devices_.Stamp(identity_, epoch, log_->dirty_blocks() * kBlockBytes,
                                     /*clean=*/false));
  EBB_RETURN_IF_ERROR(log_->BeginSession());
  identity_.epoch = epoch;
  destager_ = std::make_unique<Destager>(*log_, *tier_, *parts_.cache, clock_);
  scrubber_ = std::make_unique<Scrubber>(
      BlockVerifier(*log_, *tier_, *parts_.cache), identity_.volume_bytes / kBlockBytes, clock_,
      [this](std::string text) { Notice(VolumeNotice::Kind::kDamage, std::move(text)); });
  EBB_RETURN_IF_ERROR(Apply(config_.setting));
  if (config_.background_threads) {
    destager_->Reserve(QuietBatchBytes(BatchBytes()));
    background_ = std::thread([this] { BackgroundLoop(); });
    scrubber_->Start();
  }
  return absl::OkStatus();
}

VolumeImpl::~VolumeImpl() {
  stopping_ = true;
  Kick();
  if (background_.joinable()) background_.join();
}

absl::Status VolumeImpl::Apply(const Setting& setting) {
  const std::vector<std::string> faults = SettingFaults(setting, config_.limits);
  if (!faults.empty()) {
    std::string all;
    for (const std::string& fault : faults) all += (all.empty() ? "" : "; ") + fault;
    return absl::InvalidArgumentError(all);
  }
  {
    const std::lock_guard lock(setting_mutex_);
    setting_ = setting;
    readahead_blocks_ = static_cast<uint32_t>(setting[KnobId::kReadaheadBlocks]);
    sequential_bypass_bytes_ = static_cast<uint64_t>(setting[KnobId::kSequentialBypassBytes]);
    throttle_softness_ = static_cast<int>(setting[KnobId::kThrottleSoftness]);
    destage_watermark_ = static_cast<int>(setting[KnobId::kDestageWatermark]);
    log_->SetReadShare(static_cast<double>(setting[KnobId::kNvmeReadShare]) / 100);
    scrubber_->SetRateMibps(static_cast<uint64_t>(setting[KnobId::kScrubMibps]));
    log_->SetFlushGroupUs(static_cast<uint64_t>(setting[KnobId::kFlushGroupUs]));
    const std::lock_guard cache_lock(log_->mutex());
    read_cache_.SetPolicy(setting.As<ReadPolicy>(KnobId::kReadPolicy));
    read_cache_.SetAdmission(setting.As<ReadAdmission>(KnobId::kReadAdmission));
    read_cache_.SetTargetBytes(static_cast<uint64_t>(setting[KnobId::kReadCacheBytes]));
  }
  // A large cache is touched a chunk at a time by the background; a small change is done at once,
  // and all of it where there is no background.
  constexpr size_t kChunksAtOnce = 64;
  if (config_.background_threads) {
    ResizeReadCacheStep(kChunksAtOnce);
    Kick();
  } else {
    while (ResizeReadCacheStep(kChunksAtOnce)) {
    }
  }
  return absl::OkStatus();
}

Setting VolumeImpl::CurrentSetting() const {
  const std::lock_guard lock(setting_mutex_);
  return setting_;
}

VolumeMetrics VolumeImpl::Metrics() {
  VolumeMetrics metrics;
  const std::lock_guard lock(log_->mutex());
  stats_.Sum(metrics);
  const CacheLog::Usage usage = log_->GetUsageLocked();
  const uint64_t segment_bytes = uint64_t{log_->geometry().segment_blocks} * kBlockBytes;
  metrics.cache_data_bytes = usage.appended_blocks * kBlockBytes;
  metrics.cache_copied_bytes = usage.copied_blocks * kBlockBytes;
  metrics.cache_written_bytes = usage.written_bytes;
  metrics.cache_memory_bytes = usage.memory_bytes;
  metrics.lost_blocks = usage.lost_blocks;
  metrics.cache_space_bytes = log_->geometry().space_bytes();
  metrics.dirty_bytes = usage.dirty_blocks * kBlockBytes;
  metrics.free_bytes = usage.free_segments * segment_bytes;
  metrics.clean_bytes = metrics.cache_space_bytes - metrics.dirty_bytes - metrics.free_bytes;
  // The fill is brought up to date with each group: it may lag behind blocks of the open one.
  metrics.dirty_share = std::max(usage.fill, static_cast<double>(metrics.dirty_bytes) /
                                                 static_cast<double>(log_->write_space_bytes()));
  metrics.coalesced_blocks = usage.coalesced_blocks;

  const Destager::Counters& destage = destager_->counters();
  metrics.destage_batches = destage.batches;
  metrics.destaged_blocks = destage.blocks;
  metrics.deduplicated_blocks = destage.deduplicated_blocks;
  metrics.unreduced_blocks = destage.unreduced_blocks;
  metrics.unreadable_blocks = destage.unreadable_blocks;
  metrics.destage_raw_bytes = destage.raw_bytes;
  metrics.destage_stored_bytes = destage.stored_bytes;
  metrics.capacity_written_bytes = destage.written_bytes;
  metrics.draining = drains_ > 0;
  metrics.destage_stuck = destage_stuck_;
  const Scrubber::Progress scrub = scrubber_->progress();
  metrics.scrub_scanned_bytes = scrub.scanned_bytes;
  metrics.scrub_damaged_blocks = scrub.damaged_blocks;
  metrics.scrub_passes = scrub.passes;
  metrics.scrub_share = scrub.share;

  const CapacityUsage capacity = tier_->Usage();
  metrics.logical_bytes = capacity.logical_bytes;
  metrics.unique_bytes = capacity.unique_bytes;
  metrics.physical_bytes = capacity.physical_bytes;
  metrics.read_cache_used_bytes = read_cache_.used_bytes();
  metrics.device_errors = log_->device_errors() + read_errors_;
  metrics.checksum_errors = checksum_errors_ + destage.checksum_errors;
  metrics.devices = watch_.Metrics();
  return metrics;
}

void VolumeImpl::Notice(VolumeNotice::Kind kind, std::string text) {
  constexpr size_t kKeptMax = 100;  // somebody should look every 100 ms
  const std::lock_guard lock(notices_mutex_);
  if (notices_.size() < kKeptMax) notices_.push_back({kind, std::move(text)});
}

std::string VolumeImpl::StuckReason() {
  {
    const std::lock_guard lock(background_mutex_);
    if (!background_error_.ok()) return std::string(background_error_.message());
  }
  if (tier_->FreeBytes() == 0) return "the capacity tier is full";
  return "a batch does not end: the capacity devices, the metadata or the processor stall";
}

std::vector<VolumeNotice> VolumeImpl::CheckHealth() {
  for (VolumeNotice& notice : watch_.Look(clock_.MonotonicNs())) {
    Notice(notice.kind, std::move(notice.text));
  }
  const int watermark_percent = destage_watermark_.load(std::memory_order_relaxed);
  const bool ought_to_destage =
      log_->HasWork() && (drains_ > 0 || log_->fill() * 100 >= watermark_percent);
  const Destager::Counters& done = destager_->counters();
  switch (stuck_.Observe(clock_.MonotonicNs(), ought_to_destage, done.blocks + done.batches)) {
    case StuckDetector::Change::kStuck:
      destage_stuck_ = true;
      Notice(VolumeNotice::Kind::kStuck,
             fmt::format("destage is stuck: nothing has moved for {} with {} dirty: {}",
                         FormatDurationNs(stuck_.standing_ns()),
                         FormatBytes(log_->dirty_blocks() * kBlockBytes), StuckReason()));
      break;
    case StuckDetector::Change::kRecovered:
      destage_stuck_ = false;
      Notice(VolumeNotice::Kind::kRecovered, "destage moves again");
      break;
    case StuckDetector::Change::kNone:
      break;
  }
  const std::lock_guard lock(notices_mutex_);
  return std::exchange(notices_, {});
}

std::string VolumeImpl::Describe() const {
  std::string text = fmt::format("volume of {} on cache {}", FormatBytes(identity_.volume_bytes),
                                 parts_.cache->Describe());
  for (const auto& device : parts_.capacity)
    text += fmt::format(", capacity {}", device->Describe());
  return text;
}

absl::Status VolumeImpl::CheckRange(uint64_t offset, uint64_t bytes) const {
  if (offset <= identity_.volume_bytes && bytes <= identity_.volume_bytes - offset) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(fmt::format("{} bytes at {} are beyond the volume's end at {}",
                                           bytes, offset, identity_.volume_bytes));
}

absl::Status VolumeImpl::Finish(Op op, uint64_t bytes, uint64_t begin_ns, absl::Status status) {
  stats_.Record(op, bytes, clock_.MonotonicNs() - begin_ns, status.ok());
  return status;
}

std::unique_ptr<RequestQueue> VolumeImpl::MakeQueue(size_t depth) {
  return std::make_unique<VolumeQueue>(*this, depth);
}

}  // namespace ebb::storage
