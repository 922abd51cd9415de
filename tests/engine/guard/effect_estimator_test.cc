#include "engine/guard/effect_estimator.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/guard/sequential_test.h"

namespace ebb::engine {
namespace {

std::vector<LogSample> Ar1(uint64_t seed, int windows, double rho, double sd) {
  Rng rng(seed);
  std::vector<LogSample> samples;
  double noise = sd * rng.Normal();
  for (int64_t i = 0; i < windows; ++i) {
    samples.push_back({i, false, 3 + noise});
    noise = rho * noise + std::sqrt(1 - rho * rho) * sd * rng.Normal();
  }
  return samples;
}

TEST(EffectEstimatorTest, FindsSizeAndCorrelationOfTheNoise) {
  const EffectEstimate white = EstimateNoise(Ar1(1, 1000, 0, 0.05), {});
  const EffectEstimate red = EstimateNoise(Ar1(2, 1000, 0.8, 0.1), {});

  EXPECT_NEAR(white.noise_sd, 0.05, 0.005);
  EXPECT_LT(white.autocorrelation, 0.15);
  EXPECT_NEAR(red.noise_sd, 0.1, 0.02);
  EXPECT_NEAR(red.autocorrelation, 0.8, 0.08);
}

TEST(EffectEstimatorTest, AutocorrelationWidensABeforeAfterComparison) {
  auto width = [](double rho) {
    std::vector<LogSample> samples = Ar1(3, 60, rho, 0.05);
    for (size_t i = 30; i < 60; ++i) samples[i].candidate = true;
    EstimatorPriors no_drift;
    no_drift.slope_sd = 1e-5;
    return EstimateEffect(samples, no_drift).sd;
  };

  EXPECT_GT(width(0.8), 1.5 * width(0));
}

TEST(EffectEstimatorTest, InterleavingCancelsATrend) {
  std::vector<LogSample> samples = Ar1(4, 40, 0.3, 0.01);
  for (size_t i = 0; i < 40; ++i) {
    samples[i].log_index -= 0.01 * static_cast<double>(i);
    samples[i].candidate = i >= 20 && (i / 2) % 2 == 0;
    if (samples[i].candidate) samples[i].log_index += 0.1;
  }

  const EffectEstimate estimate = EstimateEffect(samples, {});

  EXPECT_NEAR(estimate.mean, 0.1, 0.02);
}

TEST(EffectEstimatorTest, OneStallDoesNotMakeAVerdict) {
  std::vector<LogSample> samples = Ar1(5, 40, 0.2, 0.03);
  for (size_t i = 30; i < 40; ++i) samples[i].candidate = true;
  const double clean = EstimateEffect(samples, {}).mean;
  samples[35].log_index -= 3;

  EXPECT_NEAR(EstimateEffect(samples, {}).mean, clean, 0.06);
}

TEST(EffectEstimatorTest, FewDegreesOfFreedomShrinkTheDeviate) {
  EffectEstimate few{.mean = 0.3, .sd = 0.1, .degrees_of_freedom = 5};
  EffectEstimate many{.mean = 0.3, .sd = 0.1, .degrees_of_freedom = 1000};

  // P(T5 > 3) = 0.01505, whose normal deviate is 2.168.
  EXPECT_NEAR(few.NormalDeviate(0), 2.168, 0.02);
  EXPECT_NEAR(many.NormalDeviate(0), 3, 0.01);
  EXPECT_NEAR(few.NormalDeviate(0.6), -2.168, 0.02);
}

TEST(SequentialTestTest, StaysBelowItsRateHoweverOftenOneLooks) {
  Rng rng(6);
  constexpr int kRuns = 2000;
  int crossed = 0;
  for (int run = 0; run < kRuns; ++run) {
    double sum = 0;
    for (int n = 1; n <= 200; ++n) {
      sum += rng.Normal();
      const double sd = 1 / std::sqrt(n);
      if (LogEvidence(sum / n / sd, 0.5 / sd) >= std::log(1 / 0.05)) {
        ++crossed;
        break;
      }
    }
  }

  EXPECT_LE(crossed, kRuns * 5 / 100);
  EXPECT_GE(crossed, kRuns / 200);
}

TEST(SequentialTestTest, DeviateForEvidenceIsItsInverse) {
  const double deviate = DeviateForEvidence(std::log(50), 4);

  EXPECT_NEAR(LogEvidence(deviate, 4), std::log(50), 1e-6);
}

}  // namespace
}  // namespace ebb::engine
