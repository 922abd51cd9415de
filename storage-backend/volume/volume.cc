#include "storage-backend/volume/volume.h"

#include <utility>

#include "storage-backend/metadata/metadata_store.h"
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

}  // namespace ebb::storage
