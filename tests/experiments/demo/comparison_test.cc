#include "experiments/demo/comparison.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::demo {
namespace {

using ::testing::HasSubstr;

env::WindowMetrics Window(uint64_t reads, double read_ns, uint64_t writes, double write_ns) {
  env::WindowMetrics window;
  window.seconds = 1;
  window.read.ops = reads;
  window.read.latency.Record(static_cast<uint64_t>(read_ns), reads);
  window.write.ops = writes;
  window.write.latency.Record(static_cast<uint64_t>(write_ns), writes);
  return MergeWindows(std::vector<env::WindowMetrics>{window});
}

TEST(ComparisonTest, MergedWindowsAddUp) {
  env::WindowMetrics a = Window(100, 1e6, 10, 1e5);
  a.mean_in_flight = 4;
  a.throttle_seconds = 0.5;
  env::WindowMetrics b = Window(300, 4e6, 0, 0);
  b.seconds = 3;
  b.mean_in_flight = 8;
  b.dirty_share = 0.7;

  const env::WindowMetrics merged = MergeWindows(std::vector<env::WindowMetrics>{a, b});

  EXPECT_EQ(merged.seconds, 4);
  EXPECT_EQ(merged.read.ops, 400u);
  EXPECT_EQ(merged.read.latency.count(), 400u);
  EXPECT_NEAR(merged.read.p50_ns, 4e6, 0.3e6);
  EXPECT_EQ(merged.write.ops, 10u);
  EXPECT_EQ(merged.mean_in_flight, 7);
  EXPECT_EQ(merged.throttle_seconds, 0.5);
  EXPECT_EQ(merged.dirty_share, 0.7);
  EXPECT_EQ(MergeWindows({}).read.ops, 0u);
}

TEST(ComparisonTest, PairIndexIsZeroForEqualBlocksAndFollowsAGain) {
  const env::WindowMetrics slow = Window(1000, 8e6, 500, 1e6);
  const env::WindowMetrics fast = Window(2000, 4e6, 1000, 0.5e6);

  EXPECT_EQ(PairLogIndex(agents::GoalKind::kBalanced, {slow, slow}), 0);
  // Everything twice as good: latencies halve (in whole buckets), throughput doubles.
  EXPECT_NEAR(PairLogIndex(agents::GoalKind::kBalanced, {slow, fast}), std::log(2.0), 0.05);
  EXPECT_NEAR(PairLogIndex(agents::GoalKind::kBalanced, {fast, slow}), -std::log(2.0), 0.05);
}

TEST(ComparisonTest, PairIndexWeighsTheGoalsOwnKind) {
  const env::WindowMetrics before = Window(1000, 4e6, 1000, 1e6);
  const env::WindowMetrics reads_better = Window(1000, 2e6, 1000, 1e6);

  const double read_goal = PairLogIndex(agents::GoalKind::kRead, {before, reads_better});
  const double write_goal = PairLogIndex(agents::GoalKind::kWrite, {before, reads_better});

  EXPECT_GT(read_goal, 5 * write_goal);
  EXPECT_GT(write_goal, 0);
}

TEST(ComparisonTest, AKindThatOneBlockLacksIsLeftOut) {
  const env::WindowMetrics both = Window(1000, 4e6, 1000, 1e6);
  const env::WindowMetrics reads_only = Window(1000, 4e6, 0, 0);

  EXPECT_NEAR(PairLogIndex(agents::GoalKind::kBalanced, {both, reads_only}), 0, 1e-9);
  EXPECT_TRUE(std::isnan(PairLogIndex(agents::GoalKind::kBalanced, {Window(0, 0, 0, 0), both})));
}

TEST(ComparisonTest, IntervalIsStudents) {
  // Mean 0.1, standard deviation 0.02, n = 4: half width 3.1824 * 0.02 / 2.
  const double d = 0.02 * std::sqrt(0.75);
  const std::vector<double> logs = {0.1 - d, 0.1 + d, 0.1 - d, 0.1 + d};

  const Comparison comparison = Compare(logs);

  EXPECT_EQ(comparison.pairs, 4u);
  EXPECT_NEAR(comparison.index, 100 * std::exp(0.1), 1e-9);
  EXPECT_NEAR(comparison.low, 100 * std::exp(0.1 - 0.031824), 1e-6);
  EXPECT_NEAR(comparison.high, 100 * std::exp(0.1 + 0.031824), 1e-6);
  EXPECT_TRUE(comparison.claim);
}

TEST(ComparisonTest, ALossIsAClaimTooAndZeroInsideIsNone) {
  EXPECT_TRUE(Compare(std::vector<double>{-0.1, -0.11, -0.09, -0.1}).claim);

  const Comparison none = Compare(std::vector<double>{-0.1, 0.12, 0.09, -0.1});
  EXPECT_FALSE(none.claim);
  EXPECT_THAT(none.ToText(), HasSubstr("no claim: the interval includes zero"));
}

TEST(ComparisonTest, TooFewPairsClaimNothing) {
  EXPECT_FALSE(Compare({}).claim);
  const Comparison one = Compare(std::vector<double>{0.5, NAN});
  EXPECT_FALSE(one.claim);
  EXPECT_THAT(one.ToText(), HasSubstr("only 1 comparable pairs"));
}

// Goal: when tuned does nothing, a claim comes no more often than 5 % of the time.
// Method: 20,000 comparisons of 6 pairs of pure noise.
TEST(ComparisonTest, FalseClaimsKeepTheirRate) {
  Rng rng(7);
  int claims = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<double> logs(6);
    for (double& value : logs) value = 0.05 * rng.Normal();
    claims += Compare(logs).claim ? 1 : 0;
  }

  EXPECT_NEAR(claims / 20'000.0, 0.05, 0.005);
}

TEST(ComparisonTest, StudentQuantilesJoinTheirExpansion) {
  EXPECT_NEAR(StudentQuantile975(1), 12.706, 0.001);
  EXPECT_NEAR(StudentQuantile975(31), 2.0395, 0.004);
  EXPECT_NEAR(StudentQuantile975(1000), 1.9623, 0.001);
}

TEST(ComparisonTest, OrderIsDrawnAndBalanced) {
  Rng rng(1);
  int first_tuned = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::vector<bool> order = DrawOrder(6, rng);
    ASSERT_EQ(std::count(order.begin(), order.end(), true), 3);
    first_tuned += order[0] ? 1 : 0;
  }

  EXPECT_NEAR(first_tuned, 500, 60);
  EXPECT_EQ(DrawOrder(5, rng).size(), 5u);
}

}  // namespace
}  // namespace ebb::demo
