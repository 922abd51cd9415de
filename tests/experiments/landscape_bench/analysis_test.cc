#include "experiments/landscape_bench/analysis.h"

#include <cmath>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::landscape_bench {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

env::KnobSpace Space() {
  return env::KnobSpace({{.name = "a", .max = 1000},
                         {.name = "b", .max = 1000},
                         {.name = "c", .max = 2},
                         {.name = "idle", .max = 1000},
                         {.name = "fixed", .max = 10}});
}

std::vector<env::Setting> Settings(size_t count, Rng& rng) {
  std::vector<env::Setting> settings;
  for (size_t i = 0; i < count; ++i) {
    const auto any = [&](uint64_t below) { return static_cast<int64_t>(rng.Below(below)); };
    settings.push_back({{any(1001), any(1001), any(3), any(1001), 5}});
  }
  return settings;
}

TEST(VarianceSharesTest, AreThoseOfASumOfKnobs) {
  Rng rng(1);
  const std::vector<env::Setting> settings = Settings(4'000, rng);
  std::vector<double> gains;
  for (const env::Setting& one : settings) {
    // Variances: 3/12 of `a` by its square (a deviation of 0.5 has one of 1/12), two thirds of `c`.
    const double a = static_cast<double>(one.values[0]) / 1000;
    const double b = static_cast<double>(one.values[1]) / 1000;
    gains.push_back(3 * a + b + static_cast<double>(one.values[2]) / 2);
  }
  // 9/12, 1/12 and 1/6 of 1.
  EXPECT_THAT(VarianceShares(Space(), settings, gains, 16),
              ElementsAre(DoubleNear(0.75, 0.02), DoubleNear(1.0 / 12, 0.02),
                          DoubleNear(1.0 / 6, 0.02), DoubleNear(0, 0.01), 0));
}

TEST(VarianceSharesTest, NoiseAndInteractionsBelongToNobody) {
  Rng rng(2);
  const std::vector<env::Setting> settings = Settings(2'000, rng);
  std::vector<double> gains;
  for (const env::Setting& one : settings) {
    const bool same = (one.values[0] > 500) == (one.values[1] > 500);
    gains.push_back((same ? 1 : -1) + 0.1 * rng.Normal());
  }

  for (const double share : VarianceShares(Space(), settings, gains, 16)) EXPECT_LT(share, 0.012);
}

TEST(VarianceSharesTest, LeavesOutWhatWasNotMeasured) {
  Rng rng(3);
  const std::vector<env::Setting> settings = Settings(1'000, rng);
  std::vector<double> gains;
  for (const env::Setting& one : settings) {
    gains.push_back(rng.Chance(0.3) ? kNone : static_cast<double>(one.values[2]));
  }

  EXPECT_NEAR(VarianceShares(Space(), settings, gains, 16)[2], 1, 1e-9);
}

TEST(LargestTest, IsInOrderAndWithoutFailures) {
  const std::vector<double> gains = {0.1, kNone, 0.5, -1, 0.5, 0.2};

  EXPECT_THAT(Largest(gains, 3), ElementsAre(2, 4, 5));
  EXPECT_EQ(Largest(gains, 10).size(), 5U);
}

TEST(GainTableTest, MeansAndRegretsLeaveOutCellsWithoutTheGoal) {
  const GainTable cells = {{0, 0.2, kNone}, {kNone, kNone, kNone}, {0, 0.4, 0.6}};

  const std::vector<double> means = MeanGains(cells);
  const std::vector<double> regrets = WorstRegrets(cells);

  EXPECT_DOUBLE_EQ(means[0], 0);
  EXPECT_NEAR(means[1], 0.3, 1e-12);
  EXPECT_TRUE(std::isnan(means[2])) << "it failed where others did not";
  EXPECT_NEAR(regrets[0], 0.6, 1e-12);
  EXPECT_NEAR(regrets[1], 0.2, 1e-12);
  EXPECT_TRUE(std::isnan(regrets[2]));
}

TEST(PercentTest, IsOfTheIndex) { EXPECT_NEAR(Percent(std::log(1.03)), 3, 1e-9); }

}  // namespace
}  // namespace ebb::landscape_bench
