#include "engine/guard/trip_wires.h"

#include <algorithm>

namespace ebb::engine {
namespace {

constexpr double kNsPerMicrosecond = 1000;
// A throughput floor below this many operations a second is noise.
constexpr double kFloorOpsMin = 10;

}  // namespace

env::TripConditions TripsFor(const std::vector<env::Observation>& recent,
                             const TripWireConfig& config) {
  env::TripConditions trips;
  trips.errors_max = 0;
  double read_p99_us = 0;
  double write_p99_us = 0;
  double ops_per_s_min = 0;
  bool seen = false;
  for (const env::Observation& observation : recent) {
    const env::WindowMetrics& metrics = observation.metrics;
    if (!observation.valid || !(metrics.seconds > 0)) continue;
    read_p99_us = std::max(read_p99_us, metrics.read.p99_ns / kNsPerMicrosecond);
    write_p99_us = std::max(write_p99_us, metrics.write.p99_ns / kNsPerMicrosecond);
    const double ops_per_s =
        static_cast<double>(metrics.read.ops + metrics.write.ops) / metrics.seconds;
    ops_per_s_min = seen ? std::min(ops_per_s_min, ops_per_s) : ops_per_s;
    seen = true;
  }
  if (read_p99_us > 0) {
    trips.read_p99_us_max = std::max(config.p99_floor_us, config.p99_factor * read_p99_us);
  }
  if (write_p99_us > 0) {
    trips.write_p99_us_max = std::max(config.p99_floor_us, config.p99_factor * write_p99_us);
  }
  const double floor_ops = config.throughput_share_min * ops_per_s_min;
  if (floor_ops >= kFloorOpsMin) trips.throughput_ops_min = floor_ops;
  return trips;
}

}  // namespace ebb::engine
