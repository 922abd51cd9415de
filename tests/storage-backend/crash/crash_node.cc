#include "tests/storage-backend/crash/crash_node.h"

#include "base/check.h"
#include "base/rng.h"
#include "fmt/format.h"
#include "storage-backend/capacity/records.h"
#include "storage-backend/metadata/metadata_wrapper.h"

namespace ebb::storage {
namespace {

// Metadata that loses its power with the disks. A commit counts as one write of the node, so that
// the power can go during it: then it is durable or not there at all, but never acknowledged.
class PoweredMetadata final : public MetadataWrapper {
 public:
  PoweredMetadata(MemMetadata* inner, PowerSource* power, uint64_t seed,
                  std::function<void(const MetadataBatch&)> on_commit)
      : MetadataWrapper(*inner), power_(*power), rng_(seed), on_commit_(std::move(on_commit)) {}

  absl::Status Commit(const MetadataBatch& batch, bool durable) override {
    if (on_commit_) on_commit_(batch);
    switch (power_.CountWrite()) {
      case PowerSource::Moment::kOn:
        return inner().Commit(batch, durable);
      case PowerSource::Moment::kFailing:
        if (rng_.Chance(0.5)) {
          if (absl::Status status = inner().Commit(batch, durable); !status.ok()) return status;
        }
        break;
      case PowerSource::Moment::kOff:
        break;
    }
    return absl::UnavailableError("metadata has lost its power");
  }

 private:
  PowerSource& power_;
  Rng rng_;
  const std::function<void(const MetadataBatch&)> on_commit_;
};

}  // namespace

CrashNode::CrashNode(const CrashNodeOptions& options)
    : options_(options), power_(std::make_shared<PowerSource>()) {
  const uint64_t cache_blocks = 2 + uint64_t{options.segment_blocks} * options.segment_count;
  cache_ = FaultyDisk::Make({.name = "cache",
                             .size_bytes = cache_blocks * kBlockBytes,
                             .seed = options.seed,
                             .power = power_});
  for (size_t i = 0; i < options.capacity_devices; ++i) {
    capacity_.push_back(FaultyDisk::Make({.name = fmt::format("capacity {}", i),
                                          .size_bytes = options.capacity_bytes,
                                          .seed = options.seed + 100 + i,
                                          .power = power_}));
  }
  config_.volume_bytes = options.volume_blocks * kBlockBytes;
  config_.segment_bytes = uint64_t{options.segment_blocks} * kBlockBytes;
  config_.background_threads = false;
  config_.setting.Set(KnobId::kReadCacheBytes, 0);
}

absl::Status CrashNode::Open() {
  Kill();
  VolumeParts parts;
  parts.cache = cache_->Open();
  for (const auto& disk : capacity_) parts.capacity.push_back(disk->Open());
  parts.metadata =
      std::make_unique<PoweredMetadata>(metadata_.get(), power_.get(), options_.seed, on_commit_);
  // Small enough that the map's pages are written back, forgotten and replayed all the time.
  parts.open_tier = [](std::vector<Device*> devices, MetadataStore* metadata, const Uuid& uuid) {
    return CapacityTier::OpenTuned(std::move(devices), metadata, uuid,
                                   {.map_cache_bytes = 8 << 10, .journal_bytes_max = 2 << 10});
  };
  parts.make_uuid = [seed = options_.seed, incarnation = incarnation_] {
    Uuid uuid{};
    for (size_t i = 0; i < 8; ++i) uuid[i] = static_cast<uint8_t>(seed >> (8 * i));
    uuid[15] = incarnation;
    return uuid;
  };
  auto volume = VolumeImpl::Open(config_, std::move(parts), clock_, nullptr);
  if (!volume.ok()) return volume.status();
  volume_ = *std::move(volume);
  return absl::OkStatus();
}

void CrashNode::Reinitialise() {
  Kill();
  // As much as a device must have blank at its ends to be formatted.
  constexpr uint64_t kHeadBytes = 128 << 10;
  const AlignedBuffer zeroes(kHeadBytes);
  std::vector<std::shared_ptr<FaultyDisk>> disks = capacity_;
  disks.push_back(cache_);
  for (const auto& disk : disks) {
    const std::unique_ptr<Device> device = disk->Open();
    EBB_CHECK(device->Write(0, {zeroes.data(), kHeadBytes}).ok());
    EBB_CHECK(device->Write(device->size_bytes() - kBlockBytes, {zeroes.data(), kBlockBytes}).ok());
    EBB_CHECK(device->Flush().ok());
  }
  metadata_ = std::make_unique<MemMetadata>();
  ++incarnation_;
}

void CrashNode::Reboot(uint64_t seed) {
  power_->Cut();
  Kill();
  power_->Restore();
  cache_->Reboot(seed);
  for (size_t i = 0; i < capacity_.size(); ++i) capacity_[i]->Reboot(seed + 1 + i);
  metadata_->Crash();
}

uint64_t CrashNode::log_hash() const {
  uint64_t hash = cache_->log_hash();
  for (const auto& disk : capacity_) hash = hash * 31 + disk->log_hash();
  return hash;
}

std::string CrashNode::CheckCapacity(const VolumeMetrics* metrics) {
  Kill();
  // Before the first start has come so far there is nothing to check.
  const auto format = metadata_->Get(Table::kNode, kFormatKey);
  if (!format.ok()) return format.status().ToString();
  if (!format->has_value()) return "";
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> borrowed;
  for (const auto& disk : capacity_) {
    devices.push_back(disk->Open());
    borrowed.push_back(devices.back().get());
  }
  const auto superblock = ReadSuperblock(*borrowed[0]);
  if (!superblock.ok()) return superblock.status().ToString();
  auto tier = CapacityTier::Open(borrowed, metadata_.get(), superblock->superblock.node_uuid);
  if (!tier.ok()) return tier.status().ToString();
  const auto faults = (*tier)->Check();
  if (!faults.ok()) return faults.status().ToString();
  if (!faults->empty()) return "capacity check: " + faults->front();
  if (metrics == nullptr) return "";
  const CapacityUsage usage = (*tier)->Usage();
  if (usage.logical_bytes != metrics->logical_bytes ||
      usage.unique_bytes != metrics->unique_bytes ||
      usage.physical_bytes != metrics->physical_bytes) {
    return fmt::format("space: logical {} unique {} physical {}, recomputed {} {} {}",
                       metrics->logical_bytes, metrics->unique_bytes, metrics->physical_bytes,
                       usage.logical_bytes, usage.unique_bytes, usage.physical_bytes);
  }
  return "";
}

}  // namespace ebb::storage
