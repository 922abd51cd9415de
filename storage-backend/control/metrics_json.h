// The wire form of VolumeMetrics: the results of metrics.get.
#pragma once

#include <cstdint>
#include <string>

#include "storage-backend/volume/volume.h"

namespace ebb::storage {

struct MetricsFrame {
  int64_t wall_ms = 0;
  uint64_t monotonic_ns = 0;
  uint64_t uptime_ns = 0;
  uint64_t node_epoch = 0;
  uint64_t setting_version = 0;
  uint64_t in_flight_ns_sum = 0;
  uint64_t busy_cpu_ns = 0;
  uint64_t in_flight = 0;
};

std::string MetricsToJson(const MetricsFrame& frame, const VolumeMetrics& metrics);

}  // namespace ebb::storage
