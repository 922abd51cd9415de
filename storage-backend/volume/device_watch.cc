#include "storage-backend/volume/device_watch.h"

#include <utility>

#include "fmt/format.h"

namespace ebb::storage {

DeviceWatch::DeviceWatch(uint32_t group, std::unique_ptr<Device>& cache,
                         std::vector<std::unique_ptr<Device>>& capacity)
    : group_(group) {
  Meter(cache, "cache");
  for (size_t i = 0; i < capacity.size(); ++i) Meter(capacity[i], fmt::format("capacity{}", i));
}

void DeviceWatch::Meter(std::unique_ptr<Device>& device, std::string name) {
  auto metered = std::make_unique<MeteredDevice>(std::move(device));
  devices_.push_back({.name = std::move(name), .device = metered.get(), .detector = {}});
  device = std::move(metered);
}

std::vector<DeviceMetrics> DeviceWatch::Metrics() const {
  std::vector<DeviceMetrics> metrics;
  metrics.reserve(devices_.size());
  const std::lock_guard lock(mutex_);
  for (const Watched& one : devices_) {
    const MeteredDevice::Reading reading = one.device->reading();
    metrics.push_back({.group = group_,
                       .name = one.name,
                       .in_flight = reading.in_flight,
                       .reads = reading.reads,
                       .writes = reading.writes,
                       .flushes = reading.flushes,
                       .errors = reading.errors,
                       .failing = one.detector.failing()});
  }
  return metrics;
}

std::vector<VolumeNotice> DeviceWatch::Look(uint64_t now_ns) {
  std::vector<VolumeNotice> notices;
  const std::lock_guard lock(mutex_);
  for (Watched& one : devices_) {
    const MeteredDevice::Reading reading = one.device->reading();
    const auto say = [&](VolumeNotice::Kind kind, std::string what) {
      notices.push_back({kind, fmt::format("device {} of group {} ({}) {}", one.name, group_ + 1,
                                           one.device->Describe(), what)});
    };
    switch (one.detector.Observe(now_ns, reading.done(), reading.errors)) {
      case FailureDetector::Change::kFailing:
        say(VolumeNotice::Kind::kDevice,
            fmt::format("fails: {} of its transfers so far, the last one with: {}; what is "
                        "elsewhere goes on",
                        reading.errors, std::string(one.device->last_error().message())));
        break;
      case FailureDetector::Change::kRecovered:
        say(VolumeNotice::Kind::kRecovered, "works again");
        break;
      case FailureDetector::Change::kNone:
        break;
    }
  }
  return notices;
}

}  // namespace ebb::storage
