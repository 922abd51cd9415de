#include "storage-backend/control/node_open.h"

#include <filesystem>
#include <utility>

#include <sys/stat.h>

#include "base/status.h"
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

// A node that never ran: then, and only then, missing device files are made. Later a missing file
// is a fault that an empty one in its place would hide.
bool IsFirstStart(const NodeConfig& config) {
  std::error_code ignored;
  return !Exists(config.state_dir + "/incumbent.json") &&
         (!Exists(config.metadata_dir) || std::filesystem::is_empty(config.metadata_dir, ignored));
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const DeviceConfig& config,
                                                   const std::string& role, bool may_make,
                                                   uint64_t seed, Clock& clock) {
  if (may_make && config.create_bytes > 0 && !Exists(config.path)) {
    EBB_RETURN_IF_ERROR(Annotate(CreateDeviceFile(config.path, config.create_bytes), role));
  }
  absl::StatusOr<std::unique_ptr<UringDevice>> opened = UringDevice::Open(config.path);
  if (!opened.ok()) return Annotate(opened.status(), role);
  std::unique_ptr<Device> device = *std::move(opened);
  if (config.shape.empty()) return device;
  ShapeOptions shape;
  shape.model = config.shape;
  shape.seed = seed;
  shape.scale = config.shape_scale;
  absl::StatusOr<std::unique_ptr<ShapedDevice>> shaped =
      ShapedDevice::Make(std::move(device), shape, clock);
  if (!shaped.ok()) return Annotate(shaped.status(), role);
  return *std::move(shaped);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeServer>> OpenNode(const NodeConfig& config,
                                                     NodeServerOptions options) {
  const bool first_start = IsFirstStart(config);
  std::vector<DeviceView> views;
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<Device> cache,
                       OpenDevice(config.cache, "cache device", first_start, 1, *options.clock));
  views.push_back({"cache", cache.get()});
  std::vector<std::unique_ptr<Device>> capacity;
  for (size_t i = 0; i < config.capacity.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                         OpenDevice(config.capacity[i], fmt::format("capacity device {}", i + 1),
                                    first_start, i + 2, *options.clock));
    views.push_back({fmt::format("capacity {}", i + 1), device.get()});
    capacity.push_back(std::move(device));
  }
  std::error_code error;
  std::filesystem::create_directories(config.metadata_dir, error);
  if (error) return ErrnoStatus(error.value(), "cannot make the folder " + config.metadata_dir);
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<MetadataStore> metadata,
                       OpenRocksMetadata(config.metadata_dir));
  VolumeConfig volume_config;
  volume_config.volume_bytes = config.volume_bytes;
  volume_config.limits.host_memory_bytes = HostMemoryBytes();
  EBB_ASSIGN_OR_RETURN(
      std::unique_ptr<Volume> volume,
      Volume::Open(volume_config, std::move(cache), std::move(capacity), std::move(metadata),
                   *options.clock, options.recovery_progress));
  return NodeServer::Start(config, std::move(volume), std::move(views), std::move(options));
}

}  // namespace ebb::storage
