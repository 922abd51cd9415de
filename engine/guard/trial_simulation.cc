#include "engine/guard/trial_simulation.h"

#include <cmath>

namespace ebb::engine {
namespace {

constexpr double kSlowAutocorrelation = 0.98;
constexpr double kNaiveMargin = 0.03;
constexpr uint32_t kWindowsLimit = 1000;

class NoiseSource {
 public:
  NoiseSource(const TrialScenario& scenario, uint64_t seed) : scenario_(scenario), rng_(seed) {
    noise_ = scenario.noise_sd * rng_.Normal();
    slow_ = scenario.slow_sd * rng_.Normal();
    for (int i = 0; i < 40; ++i) Next();  // forgets the Gaussian start
    drift_ = 0;
  }
  double Next() {
    const double rho = scenario_.autocorrelation;
    noise_ = rho * noise_ + std::sqrt(1 - rho * rho) * scenario_.noise_sd * Shock();
    slow_ =
        kSlowAutocorrelation * slow_ + std::sqrt(1 - kSlowAutocorrelation * kSlowAutocorrelation) *
                                           scenario_.slow_sd * rng_.Normal();
    drift_ += std::log1p(scenario_.drift_per_window);
    return noise_ + slow_ + drift_;
  }

 private:
  // Variance 1. Student t with 3 degrees of freedom has variance 3.
  double Shock() {
    if (!scenario_.heavy_tails) return rng_.Normal();
    double chi_square = 0;
    for (int i = 0; i < 3; ++i) {
      const double normal = rng_.Normal();
      chi_square += normal * normal;
    }
    return rng_.Normal() / std::sqrt(chi_square / 3) / std::sqrt(3.0);
  }

  const TrialScenario& scenario_;
  Rng rng_;
  double noise_ = 0;
  double slow_ = 0;
  double drift_ = 0;
};

}  // namespace

TrialOutcome SimulateTrial(const TrialScenario& scenario, const TrialConfig& config,
                           uint64_t seed) {
  NoiseSource noise(scenario, seed);
  const double true_log_effect = std::log1p(scenario.effect);
  std::vector<LogSample> before;
  int64_t window = 0;
  for (; window < scenario.before_windows; ++window)
    before.push_back({window, false, noise.Next()});
  TrialProtocol protocol(config, std::move(before));
  bool candidate = true;
  for (; window < kWindowsLimit; ++window) {
    const double log_index = noise.Next() + (candidate ? true_log_effect : 0);
    TrialWindow next;
    next.window = window;
    next.candidate = candidate;
    next.usable = true;
    next.log_index = log_index;
    const TrialStep step = protocol.Next(next);
    if (step.decided) break;
    candidate = step.run_candidate;
  }
  const TrialVerdict& verdict = protocol.verdict();
  TrialOutcome outcome{verdict.verdict, verdict.windows_used, verdict.effect.has_value()};
  if (verdict.effect) {
    outcome.effect = verdict.effect->mean;
    outcome.covered =
        verdict.effect->low <= scenario.effect && scenario.effect <= verdict.effect->high;
  }
  return outcome;
}

TrialOutcome SimulateNaiveTrial(const TrialScenario& scenario, uint32_t side_windows,
                                uint64_t seed) {
  NoiseSource noise(scenario, seed);
  double before = 0;
  double after = 0;
  for (uint32_t i = 0; i < side_windows; ++i) before += std::exp(noise.Next()) / side_windows;
  for (uint32_t i = 0; i < side_windows; ++i) {
    after += (1 + scenario.effect) * std::exp(noise.Next()) / side_windows;
  }
  TrialOutcome outcome;
  outcome.windows = side_windows;
  outcome.effect = after / before - 1;
  outcome.verdict = outcome.effect < -kNaiveMargin ? Verdict::kRevert : Verdict::kKeep;
  return outcome;
}

}  // namespace ebb::engine
