#include "engine/index/performance_index.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace ebb::engine {
namespace {

IndexReading Unknown(std::string reason) {
  IndexReading reading;
  reading.unknown_reason = std::move(reason);
  return reading;
}

}  // namespace

double IndexReading::value() const {
  return known ? 100 * std::exp(log_ratio) : std::numeric_limits<double>::quiet_NaN();
}

IndexReading EvaluateIndex(const BaselineModel& baseline, const Goal& goal,
                           const env::Observation& observation) {
  if (!observation.valid) return Unknown(observation.void_reason);
  const ComponentLogs measured = MeasureComponents(observation.metrics);
  if (!measured.has_read && !measured.has_write) {
    return Unknown(fmt::format("fewer than {} reads and writes in this window", kOpsPerKindMin));
  }
  const BaselineEstimate base = baseline.Predict(FeaturesOf(observation.descriptor));
  if ((measured.has_read && !base.has_read) || (measured.has_write && !base.has_write)) {
    return Unknown(fmt::format(
        "the default was seen for only {:.0f} windows under a load like this, {:.0f} are needed",
        std::floor(base.near_windows), std::ceil(baseline.config().near_windows_min)));
  }
  const ComponentWeights weights = WeightsFor(goal, observation.metrics);
  if (weights == ComponentWeights{}) {
    return Unknown("the clients do nothing now that the goal gives a weight");
  }
  IndexReading reading;
  for (size_t k = 0; k < kComponentCount; ++k) {
    if (weights[k] == 0) continue;
    reading.log_ratio += ComponentSign(k) * weights[k] * (measured.value[k] - base.log_mean[k]);
    // The components of one window err together, so their errors add instead of averaging out.
    reading.log_sd += weights[k] * base.log_sd[k];
  }
  if (std::expm1(1.96 * reading.log_sd) > kIndexHalfWidthMax) {
    return Unknown(fmt::format("the baseline for this load is uncertain by {:.0f} %",
                               100 * std::expm1(1.96 * reading.log_sd)));
  }
  reading.known = true;
  return reading;
}

}  // namespace ebb::engine
