#include "experiments/fidelity_bench/statistics.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::fidelity_bench {
namespace {

using Values = std::vector<double>;

TEST(StatisticsTest, QuantilesInterpolate) {
  EXPECT_EQ(Quantile(Values{4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_EQ(Quantile(Values{4, 1, 3, 2}, 0), 1);
  EXPECT_EQ(Quantile(Values{4, 1, 3, 2}, 1), 4);
  EXPECT_TRUE(std::isnan(Quantile(Values{}, 0.5)));
}

TEST(StatisticsTest, SpearmanLooksAtRanksOnly) {
  EXPECT_DOUBLE_EQ(Spearman(Values{1, 2, 3, 4}, Values{10, 100, 1e6, 1e9}), 1);
  EXPECT_DOUBLE_EQ(Spearman(Values{1, 2, 3, 4}, Values{4, 3, 2, 1}), -1);
  // Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
  EXPECT_DOUBLE_EQ(Spearman(Values{1, 2, 3, 4, 5}, Values{20, 10, 40, 30, 50}), 0.8);
  // Equal values share their rank: 1 2.5 2.5 4 against 1 2 3 4 is sqrt(0.9).
  EXPECT_DOUBLE_EQ(Spearman(Values{1, 2, 2, 3}, Values{1, 2, 3, 4}), std::sqrt(0.9));
  EXPECT_EQ(Spearman(Values{1, 1, 1}, Values{1, 2, 3}), 0);
}

TEST(StatisticsTest, NoiseIsPooledOverRepeats) {
  const std::vector<Values> groups = {{1, 3}, {10, 10, 16}, {5}};
  const Noise noise = PooledNoise(groups);
  EXPECT_EQ(noise.freedom, 3u);
  EXPECT_DOUBLE_EQ(noise.sd, std::sqrt((2.0 + 24.0) / 3));
  EXPECT_EQ(PooledNoise(std::vector<Values>{{5}, {6}}).freedom, 0u);
}

TEST(StatisticsTest, SmallestDetectableEffectIsThatOfATwoSidedTest) {
  // Many degrees of freedom: (1.960 + 0.842) * sd * sqrt(2 / 3).
  EXPECT_NEAR(SmallestDetectableEffect({.sd = 0.1, .freedom = 100'000}, 3, 3),
              2.8016 * 0.1 * std::sqrt(2.0 / 3), 1e-4);
  // Student's t with 10 degrees: (2.228 + 0.879).
  EXPECT_NEAR(SmallestDetectableEffect({.sd = 1, .freedom = 10}, 1, 1), 3.107 * std::sqrt(2), 0.02);
  EXPECT_EQ(SmallestDetectableEffect({}, 3, 3), 0);
}

TEST(StatisticsTest, SignsAreJudgedOnlyWhereTheEffectIsSeen) {
  const Values live = {0.5, -0.5, 0.05, -0.05, 0.3};
  const Values twin = {0.1, 0.2, -0.9, 0.9, 0};
  const SignAgreement signs = CompareSigns(live, twin, 0.1);
  EXPECT_EQ(signs.judged, 3u);
  EXPECT_EQ(signs.agree, 1u);  // no effect at all is not the right sign
  EXPECT_DOUBLE_EQ(signs.share(), 1.0 / 3);
  EXPECT_EQ(CompareSigns(live, twin, 1).share(), 1);  // nothing to be wrong about
}

TEST(StatisticsTest, RegretIsWhatTheTwinsChoiceCosts) {
  const std::vector<Values> live = {{0, 0, 0}, {0.2, 0.2, 0.2}, {0.5, 0.5, 0.5}};
  EXPECT_NEAR(Regret(live, Values{0, 2, 1}), 0.3, 1e-12);
  EXPECT_NEAR(Regret(live, Values{0, 1, 2}), 0, 1e-12);
}

TEST(StatisticsTest, NoiseDoesNotMakeTheBestLookBetterThanItIs) {
  // Equal settings, each lucky once: whoever takes the luckiest mean finds a regret of 0.3.
  const std::vector<Values> live = {{0.9, 0, 0}, {0, 0.9, 0}, {0, 0, 0.9}};
  EXPECT_LE(Regret(live, Values{1, 0, 0}), 0);
}

TEST(StatisticsTest, TheBootstrapIntervalHoldsTheMeanAndIsTheSameEachTime) {
  Values values;
  for (int i = 0; i < 100; ++i) values.push_back(i % 10);
  const auto mean = [&](std::span<const size_t> items) {
    double sum = 0;
    for (const size_t item : items) sum += values[item];
    return sum / static_cast<double>(items.size());
  };
  const Interval interval = Bootstrap(values.size(), mean);
  // The standard error of the mean is 0.287.
  EXPECT_NEAR(interval.low, 4.5 - 1.96 * 0.287, 0.1);
  EXPECT_NEAR(interval.high, 4.5 + 1.96 * 0.287, 0.1);
  EXPECT_EQ(Bootstrap(values.size(), mean).low, interval.low);
}

}  // namespace
}  // namespace ebb::fidelity_bench
