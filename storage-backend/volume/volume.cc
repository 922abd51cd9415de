#include "storage-backend/volume/volume.h"

#include <utility>

#include "storage-backend/metadata/metadata_store.h"
#include "storage-backend/volume/striped_volume.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {

absl::StatusOr<std::unique_ptr<Volume>> Volume::Open(const VolumeConfig& config,
                                                     std::unique_ptr<Device> cache,
                                                     std::vector<std::unique_ptr<Device>> capacity,
                                                     std::unique_ptr<MetadataStore> metadata,
                                                     Clock& clock,
                                                     std::function<void(double)> progress) {
  return VolumeImpl::Open(config,
                          {.cache = std::move(cache),
                           .capacity = std::move(capacity),
                           .metadata = std::move(metadata),
                           .open_tier = CapacityTier::Open},
                          clock, progress);
}

absl::StatusOr<std::unique_ptr<Volume>> Volume::Open(const VolumeConfig& config,
                                                     std::vector<DiskGroup> groups, Clock& clock,
                                                     std::function<void(double)> progress) {
  std::vector<VolumeParts> parts;
  for (DiskGroup& group : groups) {
    parts.push_back({.cache = std::move(group.cache),
                     .capacity = std::move(group.capacity),
                     .metadata = std::move(group.metadata),
                     .open_tier = CapacityTier::Open});
  }
  if (parts.size() == 1) return VolumeImpl::Open(config, std::move(parts[0]), clock, progress);
  return StripedVolume::Open(config, std::move(parts), clock, progress);
}

}  // namespace ebb::storage
