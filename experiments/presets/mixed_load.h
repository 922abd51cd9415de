// MixedLoad runs a balanced load on a volume over shaped devices and measures it: the yardstick
// that presets of device classes are found with.
//
// Six clients in a closed loop with think time: skewed small reads and writes over eight times the
// cache, one sequential reader; for one second in three the writers do not think, so that the
// cache fills and drains in turns. Everything but the machine's own noise follows from the seed.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::presets {

struct LoadOptions {
  std::string capacity_model = "disk-7200";  // of storage-backend/device/service_model.h
  double scale = 1;                          // devices are that many times faster than the model
  double seconds = 6;
  uint64_t seed = 1;
};

struct LoadResult {
  double read_mean_us = 0;
  double read_p99_us = 0;
  double write_mean_us = 0;
  double write_p99_us = 0;
  double ops_per_s = 0;
  // Geometric mean of the four latencies: what a preset is to make small.
  double score_us = 0;
};

absl::StatusOr<LoadResult> RunMixedLoad(const storage::Setting& setting,
                                        const LoadOptions& options);

}  // namespace ebb::presets
