// Simulated trials with a known true effect: how often the guard errs, and how long it takes.
//
// Noise is AR(1) on the log index, Gaussian or heavy-tailed (Student t with 3 degrees of freedom,
// same standard deviation), with an optional trend and an optional second, slow AR(1) that stands
// for a load that wanders. Same seed, same trial.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "engine/guard/trial_protocol.h"

namespace ebb::engine {

struct TrialScenario {
  double effect = 0;       // true relative effect of the candidate
  double noise_sd = 0.05;  // of one window's log index
  double autocorrelation = 0.5;
  bool heavy_tails = false;
  double drift_per_window = 0;  // relative
  double slow_sd = 0;           // of a second AR(1) with autocorrelation 0.98
  uint32_t before_windows = 30;
};

struct TrialOutcome {
  Verdict verdict = Verdict::kPending;
  uint32_t windows = 0;
  bool has_interval = false;
  bool covered = false;  // the 95 % interval holds the true effect
  double effect = 0;
};

TrialOutcome SimulateTrial(const TrialScenario& scenario, const TrialConfig& config, uint64_t seed);

// "Worse than before by 3 %: roll back", with `side_windows` windows before and after.
TrialOutcome SimulateNaiveTrial(const TrialScenario& scenario, uint32_t side_windows,
                                uint64_t seed);

}  // namespace ebb::engine
