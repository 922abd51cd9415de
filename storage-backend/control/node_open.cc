#include "storage-backend/control/node_open.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <sys/stat.h>

#include "base/host_memory.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/device/uring_device.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {
namespace {

bool Exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

bool HasMetadata(const GroupConfig& group) {
  std::error_code ignored;
  return Exists(group.metadata_dir) && !std::filesystem::is_empty(group.metadata_dir, ignored);
}

// A node that never ran: then, and only then, missing device files are made. Later a missing file
// is a fault that an empty one in its place would hide.
bool IsFirstStart(const NodeConfig& config) {
  return !Exists(config.state_dir + "/incumbent.json") &&
         std::none_of(config.groups.begin(), config.groups.end(), HasMetadata);
}

// Opens the devices of a node one after the other and remembers them for reports.
class DeviceOpener {
 public:
  DeviceOpener(bool first_start, Clock& clock) : first_start_(first_start), clock_(clock) {}

  absl::StatusOr<std::unique_ptr<Device>> Open(const DeviceConfig& config,
                                               const std::string& role) {
    if (first_start_ && config.create_bytes > 0 && !Exists(config.path)) {
      EBB_RETURN_IF_ERROR(Annotate(CreateDeviceFile(config.path, config.create_bytes), role));
    }
    absl::StatusOr<std::unique_ptr<UringDevice>> opened = UringDevice::Open(config.path);
    if (!opened.ok()) return Annotate(opened.status(), role);
    std::unique_ptr<Device> device = *std::move(opened);
    if (first_start_ && config.create_bytes > 0 && device->size_bytes() != config.create_bytes) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: {} was there already and is {}, not {}: it was left untouched", role, config.path,
          FormatBytes(device->size_bytes()), FormatBytes(config.create_bytes)));
    }
    views_.push_back({role, device.get(), nullptr});
    if (config.shape.empty()) return device;
    return Shape(std::move(device), config);
  }

  std::vector<DeviceView> TakeViews() { return std::move(views_); }

 private:
  absl::StatusOr<std::unique_ptr<Device>> Shape(std::unique_ptr<Device> device,
                                                const DeviceConfig& config) {
    ShapeOptions options;
    options.model = config.shape;
    options.seed = views_.size();  // the same at every start, another for every device
    options.scale = config.shape_scale;
    DeviceView& view = views_.back();
    absl::StatusOr<std::unique_ptr<ShapedDevice>> shaped =
        ShapedDevice::Make(std::move(device), options, clock_);
    if (!shaped.ok()) return Annotate(shaped.status(), view.role);
    view.device = shaped->get();
    view.shaped = shaped->get();
    return *std::move(shaped);
  }

  const bool first_start_;
  Clock& clock_;
  std::vector<DeviceView> views_;
};

absl::StatusOr<DiskGroup> OpenGroup(const GroupConfig& config, const std::string& prefix,
                                    DeviceOpener& opener) {
  DiskGroup group;
  EBB_ASSIGN_OR_RETURN(group.cache, opener.Open(config.cache, prefix + "cache"));
  for (const DeviceConfig& device_config : config.capacity) {
    const std::string role = fmt::format("{}capacity {}", prefix, group.capacity.size() + 1);
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, opener.Open(device_config, role));
    group.capacity.push_back(std::move(device));
  }
  std::error_code error;
  std::filesystem::create_directories(config.metadata_dir, error);
  if (error) return ErrnoStatus(error.value(), "cannot make the folder " + config.metadata_dir);
  EBB_ASSIGN_OR_RETURN(group.metadata, OpenRocksMetadata(config.metadata_dir));
  return group;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeServer>> OpenNode(const NodeConfig& config,
                                                     NodeServerOptions options) {
  if (!options.may_make && !std::all_of(config.groups.begin(), config.groups.end(), HasMetadata)) {
    return absl::FailedPreconditionError("there is no node yet: it was never started");
  }
  DeviceOpener opener(IsFirstStart(config), *options.clock);
  std::vector<DiskGroup> groups;
  for (const GroupConfig& group_config : config.groups) {
    const std::string prefix =
        config.groups.size() == 1 ? "" : fmt::format("group {} ", groups.size() + 1);
    EBB_ASSIGN_OR_RETURN(DiskGroup group, OpenGroup(group_config, prefix, opener));
    groups.push_back(std::move(group));
  }
  VolumeConfig volume_config;
  volume_config.volume_bytes = config.volume_bytes;
  volume_config.may_format = options.may_make;
  volume_config.limits.host_memory_bytes = HostMemoryBytes();
  EBB_ASSIGN_OR_RETURN(
      std::unique_ptr<Volume> volume,
      Volume::Open(volume_config, std::move(groups), *options.clock, options.recovery_progress));
  return NodeServer::Start(config, std::move(volume), opener.TakeViews(), std::move(options));
}

}  // namespace ebb::storage
