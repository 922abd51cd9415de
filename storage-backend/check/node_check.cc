#include "storage-backend/check/node_check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/check/read_only.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/device/uring_device.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/volume/block_verifier.h"
#include "storage-backend/volume/group_set.h"
#include "storage-backend/volume/node_devices.h"

namespace ebb::storage {
namespace {

using State = NodeDevices::Inspection::State;

constexpr size_t kFaultsMax = 1000;

// One group behind its read-only wrappers.
struct Guarded {
  std::unique_ptr<ReadOnlyDevice> cache;
  std::vector<std::unique_ptr<ReadOnlyDevice>> capacity;
  std::unique_ptr<ReadOnlyMetadata> metadata;
  std::vector<Device*> capacity_devices;
  NodeDevices::Identity identity;
};

class Checker {
 public:
  Checker(const std::vector<CheckGroup>& groups, const CheckOptions& options) : options_(options) {
    for (const CheckGroup& group : groups) {
      Guarded guarded;
      guarded.cache = std::make_unique<ReadOnlyDevice>(*group.cache);
      for (Device* device : group.capacity) {
        guarded.capacity.push_back(std::make_unique<ReadOnlyDevice>(*device));
        guarded.capacity_devices.push_back(guarded.capacity.back().get());
      }
      guarded.metadata = std::make_unique<ReadOnlyMetadata>(*group.metadata);
      groups_.push_back(std::move(guarded));
    }
  }

  absl::StatusOr<CheckReport> Run() {
    EBB_ASSIGN_OR_RETURN(const bool whole, CheckSuperblocks());
    if (!whole) {
      report_.skipped.emplace_back("cache log, map and data: the devices are not a whole node");
      return std::move(report_);
    }
    for (uint32_t g = 0; g < groups_.size(); ++g) CheckGroupStore(g);
    return std::move(report_);
  }

 private:
  void Fault(const std::string& area, std::string text) {
    ++report_.fault_count;
    if (report_.faults.size() < kFaultsMax) report_.faults.push_back({area, std::move(text)});
  }

  std::string Name(uint32_t group) const {
    return groups_.size() == 1 ? "" : fmt::format("group {}: ", group + 1);
  }

  NodeDevices DevicesOf(uint32_t g) {
    return {groups_[g].cache.get(), groups_[g].capacity_devices, groups_[g].metadata.get(),
            MakeUuid, GroupPlace{.index = g, .count = static_cast<uint32_t>(groups_.size())}};
  }

  // What a normal start would use without a word: one good copy of two.
  void TellDamagedCopies(uint32_t g) {
    std::vector<Device*> devices = groups_[g].capacity_devices;
    devices.insert(devices.begin(), groups_[g].cache.get());
    for (Device* device : devices) {
      const absl::StatusOr<SuperblockReading> reading = ReadSuperblock(*device);
      if (!reading.ok() || reading->damage.empty()) continue;
      Fault("superblock", fmt::format("{}{}: {}", Name(g), device->Describe(), reading->damage));
    }
  }

  absl::StatusOr<bool> CheckSuperblocks() {
    bool whole = true;
    size_t blank = 0;
    std::vector<GroupSet::Member> members;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      TellDamagedCopies(g);
      NodeDevices devices = DevicesOf(g);
      const NodeDevices::Stake stake = devices.ReadStake();
      report_.closed_cleanly = report_.closed_cleanly && stake.clean;
      const auto inspection = devices.Inspect(0, 0);
      if (!inspection.ok()) {
        Fault("superblock", Name(g) + std::string(inspection.status().message()));
        whole = false;
        continue;
      }
      blank += inspection->state == State::kNew ? 1 : 0;
      groups_[g].identity = inspection->identity;
      members.push_back({.devices = devices, .metadata = groups_[g].metadata.get()});
    }
    if (blank == groups_.size()) {
      return absl::FailedPreconditionError("the devices are blank: there is no node on them yet");
    }
    if (!whole) return false;
    const absl::StatusOr<uint64_t> volume_bytes = GroupSet(std::move(members)).Check();
    if (!volume_bytes.ok()) {
      Fault("groups", std::string(volume_bytes.status().message()));
      return false;
    }
    report_.volume_bytes = *volume_bytes;
    report_.uuid = FormatUuid(groups_[0].identity.uuid);
    return true;
  }

  void CheckGroupStore(uint32_t g) {
    Guarded& group = groups_[g];
    const Uuid uuid = GroupUuid(group.identity.uuid, g);
    auto log = CacheLog::Open({.device = group.cache.get(),
                               .metadata = group.metadata.get(),
                               .clock = &RealClock(),
                               .node_uuid = uuid,
                               .epoch = group.identity.epoch + 1,
                               .geometry = group.identity.geometry,
                               .on_change = [](uint64_t, uint64_t) {}});
    if (!log.ok()) {
      Fault("cache log", Name(g) + std::string(log.status().message()));
    } else {
      report_.dirty_bytes += (*log)->dirty_blocks() * kCacheBlockBytes;
    }
    auto tier = CapacityTier::Open(group.capacity_devices, group.metadata.get(), uuid);
    if (!tier.ok()) {
      Fault("map", Name(g) + std::string(tier.status().message()));
    } else {
      const auto faults = (*tier)->Check();
      if (!faults.ok()) Fault("map", Name(g) + std::string(faults.status().message()));
      for (size_t i = 0; faults.ok() && i < faults->size(); ++i) {
        Fault("map", Name(g) + (*faults)[i]);
      }
    }
    if (!options_.data) return;
    if (!log.ok() || !tier.ok()) {
      report_.skipped.push_back(
          fmt::format("{}data: what the blocks should be is not known", Name(g)));
      return;
    }
    CheckData(g, **log, **tier);
  }

  void CheckData(uint32_t g, CacheLog& log, CapacityTier& tier) {
    BlockVerifier verifier(log, tier, *groups_[g].cache);
    const uint64_t blocks = groups_[g].identity.volume_bytes / kCacheBlockBytes;
    for (uint64_t first = 0; first < blocks; first += BlockVerifier::kBlocksMax) {
      BlockVerifier::Result result;
      verifier.Verify(
          first,
          static_cast<uint32_t>(std::min<uint64_t>(BlockVerifier::kBlocksMax, blocks - first)),
          result);
      report_.verified_blocks += result.cache_blocks + result.capacity_blocks;
      for (std::string& damage : result.damages) Fault("data", Name(g) + damage);
      if (options_.progress) {
        options_.progress((g + static_cast<double>(first) / static_cast<double>(blocks)) /
                          static_cast<double>(groups_.size()));
      }
    }
  }

  const CheckOptions& options_;
  std::vector<Guarded> groups_;
  CheckReport report_;
};

// What CheckNode opened.
struct Opened {
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<MetadataStore> metadata;
};

absl::StatusOr<Device*> OpenDevice(const DeviceConfig& config, Opened& opened) {
  EBB_ASSIGN_OR_RETURN(auto device,
                       UringDevice::Open(config.path, 0, UringDevice::Access::kReadOnly));
  opened.devices.push_back(std::move(device));
  return opened.devices.back().get();
}

CheckReport UnreadableMetadata(const absl::Status& why) {
  CheckReport report;
  report.closed_cleanly = false;
  report.fault_count = 1;
  report.faults.push_back({"map", std::string(why.message())});
  report.skipped.emplace_back("everything else: the metadata says what there should be");
  return report;
}

}  // namespace

absl::StatusOr<CheckReport> CheckGroups(const std::vector<CheckGroup>& groups,
                                        const CheckOptions& options) {
  return Checker(groups, options).Run();
}

absl::StatusOr<CheckReport> CheckNode(const NodeConfig& config, const CheckOptions& options) {
  std::vector<CheckGroup> groups;
  std::vector<Opened> opened(config.groups.size());
  for (const GroupConfig& group_config : config.groups) {
    Opened& mine = opened[groups.size()];
    CheckGroup group;
    EBB_ASSIGN_OR_RETURN(group.cache, OpenDevice(group_config.cache, mine));
    for (const DeviceConfig& device : group_config.capacity) {
      EBB_ASSIGN_OR_RETURN(Device * capacity, OpenDevice(device, mine));
      group.capacity.push_back(capacity);
    }
    // The devices are locked now, so no node has the metadata open.
    auto metadata = OpenRocksMetadataReadOnly(group_config.metadata_dir);
    if (absl::IsDataLoss(metadata.status())) return UnreadableMetadata(metadata.status());
    EBB_RETURN_IF_ERROR(metadata.status());
    mine.metadata = *std::move(metadata);
    group.metadata = mine.metadata.get();
    groups.push_back(std::move(group));
  }
  return CheckGroups(groups, options);
}

}  // namespace ebb::storage
