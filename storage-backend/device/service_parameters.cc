#include "storage-backend/device/service_parameters.h"

#include <cmath>

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

FlashParameters SataSsd() {
  return {.dies = 16,
          .read_ns = 75e3,
          .program_ns = 2.0e6,
          .suspend_ns = 100e3,
          .command_ns = 2.7e3,
          .controller_ns = 15e3,
          .write_ack_ns = 30e3,
          .flush_ns = 100e3,
          .link_bytes_per_ns = 0.55,
          .page_bytes = 16 * kKiB,
          .program_unit_bytes = 64 * kKiB,
          .buffer_bytes = 16 * kMiB};
}

// A program of four bits a cell takes about three times as long as one of three, a read half more.
FlashParameters QlcSsd() {
  FlashParameters parameters = SataSsd();
  parameters.read_ns = 105e3;
  parameters.program_ns = 6.5e6;
  parameters.suspend_ns = 150e3;
  return parameters;
}

FlashParameters Nvme() {
  return {.dies = 64,
          .read_ns = 68e3,
          .program_ns = 2.0e6,
          .suspend_ns = 60e3,
          .command_ns = 0.28e3,
          .controller_ns = 9e3,
          .write_ack_ns = 18e3,
          .flush_ns = 15e3,
          .link_bytes_per_ns = 3.2,
          .page_bytes = 16 * kKiB,
          .program_unit_bytes = 64 * kKiB,
          .buffer_bytes = 32 * kMiB};
}

// The average seek is 8.3 ms and the full stroke 15 ms.
DiskParameters Disk7200() {
  return {.revolution_ns = 60e9 / 7200,
          .bytes_per_ns = 0.180,
          .link_bytes_per_ns = 0.550,
          .overhead_ns = 100e3,
          .seek_min_ns = 0.8e6,
          .seek_slope_ns = 14.1e6,
          .cache_bytes = 32 * kMiB};
}

}  // namespace

std::optional<ServiceParameters> ServiceParametersOf(std::string_view name) {
  if (name == "disk-7200") return Disk7200();
  if (name == "sata-ssd") return SataSsd();
  if (name == "qlc-ssd") return QlcSsd();
  if (name == "nvme") return Nvme();
  return std::nullopt;
}

// One fault at a time is enough: these come from a program.
absl::Status CheckServiceParameters(const ServiceParameters& parameters) {
  absl::Status status;
  VisitParameters(parameters, [&status](const ServiceParameterInfo& info, const auto& number) {
    const auto value = static_cast<double>(number);
    if (value >= info.min && value <= info.max && std::isfinite(value)) return;
    status.Update(absl::InvalidArgumentError(fmt::format(
        "{} = {} of a device is not within {} to {}", info.name, value, info.min, info.max)));
  });
  return status;
}

}  // namespace ebb::storage
