// DeviceWatch meters the devices of a volume and notices when one begins to fail.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage-backend/device/metered_device.h"
#include "storage-backend/policy/failure_detector.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {

class DeviceWatch {
 public:
  // Puts a meter before each device; they outlive the watch.
  DeviceWatch(uint32_t group, std::unique_ptr<Device>& cache,
              std::vector<std::unique_ptr<Device>>& capacity);

  // Any thread.
  std::vector<DeviceMetrics> Metrics() const;
  // What has changed since the last look; called every 100 ms or so.
  std::vector<VolumeNotice> Look(uint64_t now_ns);

 private:
  struct Watched {
    std::string name;
    MeteredDevice* device = nullptr;
    FailureDetector detector;
  };
  void Meter(std::unique_ptr<Device>& device, std::string name);

  const uint32_t group_;
  mutable std::mutex mutex_;  // of the detectors
  std::vector<Watched> devices_;
};

}  // namespace ebb::storage
