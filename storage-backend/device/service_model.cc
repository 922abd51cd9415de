#include "storage-backend/device/service_model.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "storage-backend/device/disk_model.h"
#include "storage-backend/device/flash_model.h"

namespace ebb::storage {

std::vector<std::string> ServiceModelNames() {
  return {"disk-7200", "sata-ssd", "qlc-ssd", "nvme"};
}

absl::StatusOr<std::unique_ptr<ServiceModel>> MakeServiceModel(const ServiceParameters& parameters,
                                                               const ServiceModelOptions& options) {
  if (options.device_bytes == 0) {
    return absl::InvalidArgumentError("a service model needs the size of its device");
  }
  if (!(options.scale >= 0.01 && options.scale <= 1000)) {
    return absl::InvalidArgumentError(
        fmt::format("scale {} of a service model is not within 0.01 to 1000", options.scale));
  }
  if (absl::Status status = CheckServiceParameters(parameters); !status.ok()) return status;
  if (const auto* flash = std::get_if<FlashParameters>(&parameters)) {
    return std::make_unique<FlashModel>(*flash, options);
  }
  return std::make_unique<DiskModel>(std::get<DiskParameters>(parameters), options);
}

absl::StatusOr<std::unique_ptr<ServiceModel>> MakeServiceModel(std::string_view name,
                                                               const ServiceModelOptions& options) {
  const std::optional<ServiceParameters> parameters = ServiceParametersOf(name);
  if (!parameters) {
    return absl::InvalidArgumentError(fmt::format("no service model is named '{}'; there are {}",
                                                  name, fmt::join(ServiceModelNames(), ", ")));
  }
  return MakeServiceModel(*parameters, options);
}

}  // namespace ebb::storage
