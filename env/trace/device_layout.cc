#include "env/trace/device_layout.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace ebb::env {
namespace {

constexpr size_t kDevicesMax = 1'000'000;
constexpr uint64_t kBytesMax = uint64_t{1} << 63;

}  // namespace

absl::Status DeviceLayout::Learn(const trace::TraceRecord& record) {
  const auto [entry, is_new] =
      devices_.try_emplace(record.device, Device{.number = devices_.size()});
  if (is_new && devices_.size() > kDevicesMax) {
    return absl::ResourceExhaustedError("the trace has more than a million devices");
  }
  entry->second.end = std::max(entry->second.end, record.offset + record.bytes);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DeviceLayout::Settle() {
  std::vector<Device*> order(devices_.size());
  for (auto& [name, device] : devices_) order[device.number] = &device;
  uint64_t end = 0;
  for (Device* device : order) {
    device->begin_on_target = (end + kMiB - 1) / kMiB * kMiB;
    if (device->end > kBytesMax - device->begin_on_target - kMiB) {
      return absl::OutOfRangeError("the trace's devices do not fit one of 2^63 bytes");
    }
    end = device->begin_on_target + device->end;
  }
  return end;
}

uint64_t DeviceLayout::Place(const trace::TraceRecord& record) const {
  const auto entry = devices_.find(record.device);
  EBB_CHECK(entry != devices_.end());
  return entry->second.begin_on_target + record.offset;
}

}  // namespace ebb::env
