// The error rates that the guard is bought for, simulated with few trials and loose bounds; the
// program ebb_guard_bench measures them closely.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "engine/guard/trial_simulation.h"

namespace ebb::engine {
namespace {

constexpr uint32_t kTrials = 300;

struct Rates {
  double kept = 0;
  double reverted_within2 = 0;
  double reverted_within5 = 0;
  double covered = 0;
  uint32_t windows_median = 0;
};

Rates Measure(const TrialScenario& scenario) {
  Rates rates;
  std::vector<uint32_t> windows;
  for (uint32_t i = 0; i < kTrials; ++i) {
    const TrialOutcome outcome = SimulateTrial(scenario, TrialConfig{}, 7000 + i);
    const bool reverted = outcome.verdict == Verdict::kRevert;
    rates.kept += outcome.verdict == Verdict::kKeep ? 1.0 / kTrials : 0;
    rates.reverted_within2 += reverted && outcome.windows <= 2 ? 1.0 / kTrials : 0;
    rates.reverted_within5 += reverted && outcome.windows <= 5 ? 1.0 / kTrials : 0;
    rates.covered += outcome.covered ? 1.0 / kTrials : 0;
    windows.push_back(outcome.windows);
  }
  std::sort(windows.begin(), windows.end());
  rates.windows_median = windows[kTrials / 2];
  return rates;
}

class GuardErrorRates : public testing::TestWithParam<std::tuple<bool, double>> {
 protected:
  TrialScenario Scenario(double effect) const {
    TrialScenario scenario;
    scenario.effect = effect;
    scenario.heavy_tails = std::get<0>(GetParam());
    scenario.drift_per_window = std::get<1>(GetParam());
    return scenario;
  }
};

TEST_P(GuardErrorRates, HarmIsNeverKeptAndNothingRarely) {
  EXPECT_LE(Measure(Scenario(-0.03)).kept, 0.01);
  const Rates nothing = Measure(Scenario(0));
  EXPECT_LE(nothing.kept, 0.02);
  EXPECT_LE(nothing.windows_median, 18U);
  EXPECT_GE(nothing.covered, 0.91);
}

TEST_P(GuardErrorRates, ARealGainIsKeptInTime) {
  const Rates gain = Measure(Scenario(0.10));

  EXPECT_GE(gain.kept, 0.87);
  EXPECT_LE(gain.windows_median, 40U);
}

TEST_P(GuardErrorRates, BigHarmIsCutShort) {
  EXPECT_GE(Measure(Scenario(-0.2)).reverted_within5, 0.88);
  EXPECT_GE(Measure(Scenario(-0.5)).reverted_within2, 0.98);
}

INSTANTIATE_TEST_SUITE_P(NoiseAndDrift, GuardErrorRates,
                         testing::Combine(testing::Bool(), testing::Values(0.0, -0.005)));

TEST(GuardErrorRatesTest, ALoadThatWandersIsNotTakenForAGain) {
  TrialScenario scenario;
  scenario.slow_sd = 0.05;

  EXPECT_LE(Measure(scenario).kept, 0.01);
}

TEST(GuardErrorRatesTest, NoiseMakesItCautiousNotWrong) {
  TrialScenario scenario;
  scenario.noise_sd = 0.2;
  scenario.effect = -0.03;

  EXPECT_LE(Measure(scenario).kept, 0.01);
}

TEST(GuardErrorRatesTest, NaiveGuardsRevertChangesThatDidNothing) {
  uint32_t reverted = 0;
  for (uint32_t i = 0; i < kTrials; ++i) {
    if (SimulateNaiveTrial(TrialScenario{}, 1, i).verdict == Verdict::kRevert) ++reverted;
  }

  // A quarter or more: what a guard must beat.
  EXPECT_GE(reverted, kTrials / 5);
}

}  // namespace
}  // namespace ebb::engine
