#include "engine/goal/goal.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

env::WindowMetrics Window(uint64_t reads, uint64_t writes) {
  env::WindowMetrics metrics;
  metrics.seconds = 2;
  metrics.read.ops = reads;
  metrics.read.p50_ns = 1e6;
  metrics.read.p99_ns = 4e6;
  metrics.write.ops = writes;
  metrics.write.p50_ns = 2e6;
  metrics.write.p99_ns = 8e6;
  return metrics;
}

double Sum(const ComponentWeights& weights, size_t first) {
  return std::accumulate(weights.begin() + static_cast<ptrdiff_t>(first),
                         weights.begin() + static_cast<ptrdiff_t>(first + kComponentsPerKind), 0.0);
}

TEST(GoalTest, OwnKindCarriesNineTenths) {
  const ComponentWeights read = WeightsFor(agents::GoalKind::kRead, Window(100, 900));
  const ComponentWeights write = WeightsFor(agents::GoalKind::kWrite, Window(100, 900));

  EXPECT_NEAR(Sum(read, 0), 0.9, 1e-12);
  EXPECT_NEAR(Sum(read, kComponentsPerKind), 0.1, 1e-12);
  EXPECT_NEAR(Sum(write, 0), 0.1, 1e-12);
}

TEST(GoalTest, BalancedFollowsTheMeasuredMix) {
  const ComponentWeights weights = WeightsFor(agents::GoalKind::kBalanced, Window(300, 700));

  EXPECT_NEAR(Sum(weights, 0), 0.3, 1e-12);
  EXPECT_NEAR(Sum(weights, kComponentsPerKind), 0.7, 1e-12);
}

TEST(GoalTest, KindWithoutTrafficDropsOutAndTheRestSumsToOne) {
  const ComponentWeights weights =
      WeightsFor(agents::GoalKind::kRead, Window(kOpsPerKindMin - 1, 500));

  EXPECT_EQ(Sum(weights, 0), 0);
  EXPECT_NEAR(Sum(weights, kComponentsPerKind), 1, 1e-12);
}

TEST(GoalTest, IdleWindowHasNoWeightsAndNoComponents) {
  const env::WindowMetrics idle = Window(0, 0);

  const ComponentWeights weights = WeightsFor(agents::GoalKind::kBalanced, idle);
  const ComponentLogs logs = MeasureComponents(idle);

  EXPECT_EQ(Sum(weights, 0) + Sum(weights, kComponentsPerKind), 0);
  EXPECT_FALSE(logs.has_read || logs.has_write);
}

TEST(GoalTest, ThroughputIsARateAndSignsPointToBetter) {
  const ComponentLogs logs = MeasureComponents(Window(400, 100));

  EXPECT_NEAR(logs.value[static_cast<size_t>(Component::kReadThroughput)], std::log(200.0), 1e-12);
  EXPECT_EQ(ComponentSign(static_cast<size_t>(Component::kReadThroughput)), 1);
  EXPECT_EQ(ComponentSign(static_cast<size_t>(Component::kWriteP99)), -1);
}

TEST(GoalTest, AgainstItselfTheIndexIsNothingAndAFasterWindowIsBetter) {
  const env::WindowMetrics base = Window(400, 100);
  env::WindowMetrics faster = base;
  for (env::OpWindow* op : {&faster.read, &faster.write}) {
    op->p50_ns /= 2;
    op->p99_ns /= 2;
  }

  EXPECT_EQ(LogIndexAgainst(agents::GoalKind::kBalanced, base, base), 0);
  // Latencies weigh 0.65, throughput is the same.
  EXPECT_NEAR(LogIndexAgainst(agents::GoalKind::kBalanced, faster, base), 0.65 * std::log(2), 1e-9);
}

TEST(GoalTest, AKindThatOneOfThemLacksDropsOutOfTheComparison) {
  env::WindowMetrics half = Window(400, 100);
  half.read.ops = 0;

  EXPECT_EQ(LogIndexAgainst(agents::GoalKind::kRead, Window(400, 100), half), 0);
}

TEST(GoalTest, CustomWeightsAreTakenAsGivenAndTheRestIsScaledUp) {
  Goal goal;
  ASSERT_TRUE(ReadWeights({{"read_p99", 0.6}, {"write_p50", 0.4}}, goal).empty());

  const ComponentWeights both = WeightsFor(goal, Window(100, 900));
  const ComponentWeights reads = WeightsFor(goal, Window(100, 0));

  EXPECT_NEAR(both[static_cast<size_t>(Component::kReadP99)], 0.6, 1e-12);
  EXPECT_NEAR(both[static_cast<size_t>(Component::kWriteP50)], 0.4, 1e-12);
  EXPECT_NEAR(Sum(both, 0), 0.6, 1e-12);
  EXPECT_NEAR(reads[static_cast<size_t>(Component::kReadP99)], 1, 1e-12);
  EXPECT_EQ(GoalName(goal), "custom");
}

TEST(GoalTest, CustomWeightsOfWhatHasNoTrafficWeighNothing) {
  Goal goal;
  ASSERT_TRUE(ReadWeights({{"read_p99", 1}}, goal).empty());

  EXPECT_EQ(WeightsFor(goal, Window(0, 900)), ComponentWeights{});
}

TEST(GoalTest, AgentsAreToldTheNearestOfTheThree) {
  Goal goal;
  ReadWeights({{"read_p99", 0.7}, {"write_p99", 0.3}}, goal);
  EXPECT_EQ(goal.kind, agents::GoalKind::kRead);
  ReadWeights({{"read_p99", 0.2}, {"write_p99", 0.8}}, goal);
  EXPECT_EQ(goal.kind, agents::GoalKind::kWrite);
  ReadWeights({{"read_p99", 0.5}, {"write_p99", 0.5}}, goal);
  EXPECT_EQ(goal.kind, agents::GoalKind::kBalanced);
}

TEST(GoalTest, EveryFaultOfWeightsIsNamedAndTheGoalStays) {
  Goal goal(agents::GoalKind::kRead);

  const std::vector<GoalFault> faults =
      ReadWeights({{"raed_p50", 0.5}, {"write_p99", -1}, {"read_p99", 0.2}}, goal);

  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].entry, "raed_p50");
  EXPECT_NE(faults[0].text.find("did you mean 'read_p50'?"), std::string::npos);
  EXPECT_EQ(faults[1].text, "must be from 0 to 1, not -1");
  const std::vector<GoalFault> sum = ReadWeights({{"read_p99", 0.2}, {"read_p50", 0.3}}, goal);
  ASSERT_EQ(sum.size(), 1U);
  EXPECT_EQ(sum[0].text, "must sum to 1, not 0.5");
  EXPECT_EQ(goal, Goal(agents::GoalKind::kRead));
}

TEST(GoalTest, LimitsAreReadAndToldInWords) {
  Goal goal(agents::GoalKind::kWrite);
  EXPECT_EQ(GoalText(goal), "write");

  ASSERT_TRUE(ReadLimits({{"read_p99", 2000}, {"write_p99", 500}}, goal).empty());

  EXPECT_EQ(GoalText(goal), "write, read p99 at most 2 ms, write p99 at most 500 us");
  EXPECT_EQ(LimitsByName(goal),
            (std::map<std::string, double>{{"read_p99", 2000}, {"write_p99", 500}}));
  const std::vector<GoalFault> faults = ReadLimits({{"read_p99", 0}, {"p99", 1}}, goal);
  EXPECT_EQ(faults.size(), 2U);
  EXPECT_EQ(goal.limits.read_p99_us_max, 2000);
  ReadLimits({}, goal);
  EXPECT_FALSE(goal.limits.any());
}

}  // namespace
}  // namespace ebb::engine
