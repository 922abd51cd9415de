#include "env/twin/fit/fit_target.h"

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/device/superblock.h"
#include "storage-backend/device/uring_device.h"

namespace ebb::twin {
namespace {

using storage::UringDevice;

constexpr uint64_t kShapedBytes = 256 * kMiB;

absl::StatusOr<FittedDevice> FitOpened(storage::Device& device, const ProbeOptions& options) {
  FittedDevice fitted{.description = device.Describe(), .wrote = options.writes};
  EBB_ASSIGN_OR_RETURN(fitted.measured, ProbeDevice(device, options));
  EBB_ASSIGN_OR_RETURN(fitted.fit, FitDevice(fitted.measured, device.size_bytes(), options));
  return fitted;
}

absl::StatusOr<FittedDevice> FitShape(const FitTarget& target, ProbeOptions options) {
  options.writes = true;
  EBB_ASSIGN_OR_RETURN(const auto device, storage::ShapedDevice::Make(
                                              std::make_unique<storage::MemDevice>(kShapedBytes),
                                              {.model = target.shape, .scale = target.speed}));
  return FitOpened(*device, options);
}

// Removes the file that was made for the measurement, whatever happens.
struct MadeFile {
  std::string path;
  ~MadeFile() {
    std::error_code error;
    std::filesystem::remove(path, error);
  }
};

absl::StatusOr<FittedDevice> FitNewFile(const FitTarget& target, ProbeOptions options) {
  options.writes = true;
  EBB_RETURN_IF_ERROR(storage::CreateDeviceFile(target.path, target.create_bytes));
  const MadeFile made{target.path};
  EBB_ASSIGN_OR_RETURN(const auto device, UringDevice::Open(target.path));
  // A hole is read from nowhere: everything has to be there before reads are measured.
  AlignedBuffer data(kMiB);
  for (uint64_t at = 0; at < device->size_bytes(); at += kMiB) {
    const uint64_t bytes = std::min<uint64_t>(kMiB, device->size_bytes() - at);
    data.data()[0] = static_cast<std::byte>(at / kMiB);
    EBB_RETURN_IF_ERROR(device->Write(at, data.span(0, bytes)));
  }
  EBB_RETURN_IF_ERROR(device->Flush());
  return FitOpened(*device, options);
}

}  // namespace

absl::StatusOr<FittedDevice> MeasureAndFit(const FitTarget& target, ProbeOptions options) {
  if (target.path.empty() == target.shape.empty()) {
    return absl::InvalidArgumentError("either a device or a shape is measured");
  }
  if (!target.shape.empty()) return FitShape(target, std::move(options));
  std::error_code error;
  const bool exists = std::filesystem::exists(target.path, error);
  if (!exists && target.create_bytes == 0) {
    return absl::NotFoundError(fmt::format(
        "{} does not exist; --create SIZE makes a file there, measures it and removes it",
        target.path));
  }
  if (!exists) return FitNewFile(target, std::move(options));
  if (target.create_bytes > 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{} exists already; --create measures a file that is made for it", target.path));
  }
  options.writes = target.overwrite;
  EBB_ASSIGN_OR_RETURN(const auto device,
                       UringDevice::Open(target.path, 0,
                                         target.overwrite ? UringDevice::Access::kReadWrite
                                                          : UringDevice::Access::kReadOnly));
  if (target.overwrite) {
    const auto found = storage::ReadSuperblock(*device);
    if (!found.ok() || !found->blank) {
      return absl::FailedPreconditionError(fmt::format(
          "{} holds a store of Ebb's, or something else at its beginning: nothing was written; "
          "erase it yourself (blkdiscard, dd) if it may go",
          target.path));
    }
  }
  return FitOpened(*device, options);
}

}  // namespace ebb::twin
