#include "storage-backend/device/service_model.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "storage-backend/device/disk_model.h"
#include "storage-backend/device/flash_model.h"

namespace ebb::storage {

std::vector<std::string> ServiceModelNames() {
  return {"disk-7200", "sata-ssd", "qlc-ssd", "nvme"};
}

absl::StatusOr<std::unique_ptr<ServiceModel>> MakeServiceModel(std::string_view name,
                                                               const ServiceModelOptions& options) {
  if (options.device_bytes == 0) {
    return absl::InvalidArgumentError("a service model needs the size of its device");
  }
  if (!(options.scale >= 0.01 && options.scale <= 1000)) {
    return absl::InvalidArgumentError(
        fmt::format("scale {} of a service model is not within 0.01 to 1000", options.scale));
  }
  if (name == "disk-7200") return std::make_unique<DiskModel>(options);
  if (name == "sata-ssd") return std::make_unique<FlashModel>(SataSsdParameters(), options);
  if (name == "qlc-ssd") return std::make_unique<FlashModel>(QlcSsdParameters(), options);
  if (name == "nvme") return std::make_unique<FlashModel>(NvmeParameters(), options);
  return absl::InvalidArgumentError(fmt::format("no service model is named '{}'; there are {}",
                                                name, fmt::join(ServiceModelNames(), ", ")));
}

}  // namespace ebb::storage
