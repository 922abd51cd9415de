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

// One fault at a time is enough: these come from a program.
absl::Status Check(const char* name, double value, double min, double max) {
  if (value >= min && value <= max && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} = {} of a device is not within {} to {}", name, value, min, max));
}

absl::Status CheckFlash(const FlashParameters& p) {
  const auto bytes = [](uint64_t value) { return static_cast<double>(value); };
  absl::Status status = Check("dies", bytes(p.dies), 1, 4096);
  status.Update(Check("read_ns", p.read_ns, 1, 1e11));
  status.Update(Check("program_ns", p.program_ns, 1, 1e11));
  status.Update(Check("suspend_ns", p.suspend_ns, 0, 1e11));
  status.Update(Check("command_ns", p.command_ns, 0, 1e11));
  status.Update(Check("controller_ns", p.controller_ns, 0, 1e11));
  status.Update(Check("write_ack_ns", p.write_ack_ns, 0, 1e11));
  status.Update(Check("flush_ns", p.flush_ns, 0, 1e11));
  status.Update(Check("link_bytes_per_ns", p.link_bytes_per_ns, 1e-6, 1e4));
  status.Update(Check("page_bytes", bytes(p.page_bytes), 512, bytes(16 * kMiB)));
  status.Update(Check("program_unit_bytes", bytes(p.program_unit_bytes), 512, bytes(kGiB)));
  status.Update(Check("buffer_bytes", bytes(p.buffer_bytes), 512, bytes(64 * kGiB)));
  return status;
}

absl::Status CheckDisk(const DiskParameters& p) {
  absl::Status status = Check("revolution_ns", p.revolution_ns, 1, 1e12);
  status.Update(Check("bytes_per_ns", p.bytes_per_ns, 1e-6, 1e4));
  status.Update(Check("link_bytes_per_ns", p.link_bytes_per_ns, 1e-6, 1e4));
  status.Update(Check("overhead_ns", p.overhead_ns, 0, 1e12));
  status.Update(Check("seek_min_ns", p.seek_min_ns, 0, 1e12));
  status.Update(Check("seek_slope_ns", p.seek_slope_ns, 0, 1e12));
  status.Update(Check("cache_bytes", static_cast<double>(p.cache_bytes), 512,
                      static_cast<double>(64 * kGiB)));
  return status;
}

}  // namespace

std::optional<ServiceParameters> ServiceParametersOf(std::string_view name) {
  if (name == "disk-7200") return Disk7200();
  if (name == "sata-ssd") return SataSsd();
  if (name == "qlc-ssd") return QlcSsd();
  if (name == "nvme") return Nvme();
  return std::nullopt;
}

absl::Status CheckServiceParameters(const ServiceParameters& parameters) {
  if (const auto* flash = std::get_if<FlashParameters>(&parameters)) return CheckFlash(*flash);
  return CheckDisk(std::get<DiskParameters>(parameters));
}

}  // namespace ebb::storage
