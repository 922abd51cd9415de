// Estimates the effect of a candidate setting from log indexes whose noise is autocorrelated.
//
// Model, for window t: y_t = level + slope * t + effect * (candidate ran) + e_t, where e is AR(1)
// with unknown size and unknown correlation rho. For each rho of a grid the windows are whitened
// (gaps between windows count as powers of rho) and fitted by least squares with outliers
// winsorised; the fits are averaged by their restricted likelihood. So the interval holds the
// uncertainty about the noise as well, short trials get wide intervals, and neither "n independent
// windows" nor a fixed inflation factor is assumed. `slope` has a prior around zero: slow drift of
// the machine is expected, and interleaving the two settings is what pins it down. Pure function,
// thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace ebb::engine {

struct LogSample {
  int64_t window = 0;      // ascending; a gap means windows that were dropped
  bool candidate = false;  // which setting ran
  double log_index = 0;
};

struct EffectEstimate {
  double mean = 0;  // of the log ratio candidate : incumbent
  double sd = 0;
  double degrees_of_freedom = 0;
  double noise_sd = 0;         // of one window
  double autocorrelation = 0;  // of neighbouring windows
  // How many standard deviations the effect is from `log_effect`, as a normal deviate (tails of
  // the t distribution are accounted for).
  double NormalDeviate(double log_effect) const;
  // Half width of the central 95 % interval of the log effect.
  double HalfWidth95() const;
};

struct EstimatorPriors {
  double slope_sd = 0.006;  // of the log index, per window
  double noise_sd = 0.01;   // weight: that of noise_weight windows
  double noise_weight = 1;
};

// Needs at least one sample of each setting and four in total.
EffectEstimate EstimateEffect(std::span<const LogSample> samples, const EstimatorPriors& priors);

// Noise of the incumbent alone (mean, sd and degrees_of_freedom of the level are not filled).
EffectEstimate EstimateNoise(std::span<const LogSample> samples, const EstimatorPriors& priors);

}  // namespace ebb::engine
