#include "engine/uplift/holdback_block.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

struct Level {
  double latency_us = 1000;
  double in_flight = 32;
  double read_share = 0.5;
};

env::Observation Window(const Level& level, int64_t wall_ms = 1000) {
  env::Observation seen;
  seen.wall_ms = wall_ms;
  seen.metrics.seconds = 1;
  const double ops = level.in_flight / level.latency_us * 1e6;
  env::OpWindow& read = seen.metrics.read;
  read.ops = static_cast<uint64_t>(ops * level.read_share);
  read.p50_ns = level.latency_us * 1e3;
  read.p99_ns = 4 * read.p50_ns;
  env::OpWindow& write = seen.metrics.write;
  write.ops = static_cast<uint64_t>(ops * (1 - level.read_share));
  write.p50_ns = level.latency_us * 1e3;
  write.p99_ns = 4 * write.p50_ns;
  seen.descriptor.mean_in_flight = level.in_flight;
  seen.descriptor.read_share = level.read_share;
  seen.descriptor.mean_read_bytes = seen.descriptor.mean_write_bytes = 4096;
  return seen;
}

std::vector<env::Observation> Windows(const Level& level, size_t count = 10) {
  return std::vector<env::Observation>(count, Window(level));
}

double Uplift(const absl::StatusOr<UpliftBlock>& block) {
  return std::expm1(block->LogUplift(agents::GoalKind::kBalanced));
}

TEST(HoldbackBlockTest, TellsHowMuchBetterTheTunedSettingIs) {
  const auto block = MeasureBlock(Windows({.latency_us = 1000}), Windows({.latency_us = 1100}),
                                  Windows({.latency_us = 1000}));

  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_NEAR(Uplift(block), 0.10, 1e-3);
  EXPECT_EQ(block->default_windows, 10U);
  EXPECT_EQ(block->tuned_windows, 20U);
  EXPECT_NEAR(block->read_share, 0.5, 1e-3);
}

TEST(HoldbackBlockTest, WhatMovesSteadilyCancels) {
  std::vector<env::Observation> sides[3];
  double latency = 1000;
  for (auto& side : sides) {
    for (int i = 0; i < 10; ++i) side.push_back(Window({.latency_us = latency *= 1.01}));
  }

  EXPECT_NEAR(Uplift(MeasureBlock(sides[0], sides[1], sides[2])), 0, 2e-3);
}

TEST(HoldbackBlockTest, AMixThatWandersIsNoUplift) {
  // Reads are a hundred times slower than writes: were each window weighed by its own mix, the
  // level of their latency would come into the comparison.
  const auto mixed = [](double read_share) {
    std::vector<env::Observation> windows = Windows({.read_share = read_share});
    for (env::Observation& each : windows) {
      each.metrics.read = each.metrics.write = Window({}).metrics.read;
      each.metrics.read.p50_ns *= 100;
      each.metrics.read.p99_ns *= 100;
      each.metrics.read.ops = static_cast<uint64_t>(10'000 * read_share);
      each.metrics.write.ops = static_cast<uint64_t>(10'000 * (1 - read_share));
    }
    return windows;
  };
  const auto block = MeasureBlock(mixed(0.45), mixed(0.55), mixed(0.45));

  ASSERT_TRUE(block.ok()) << block.status();
  // The share of each kind moves its own throughput by a fifth, one up and one down.
  EXPECT_LT(std::abs(Uplift(block)), 0.03);
}

TEST(HoldbackBlockTest, WeighsByTheGoalThatIsAskedFor) {
  std::vector<env::Observation> tuned = Windows({});
  for (env::Observation& each : tuned) each.metrics.read.p50_ns /= 2;

  const auto block = MeasureBlock(tuned, Windows({}), tuned);

  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_NEAR(block->LogUplift(agents::GoalKind::kRead), 0.9 * 0.4 * std::log(2), 1e-3);
  EXPECT_NEAR(block->LogUplift(agents::GoalKind::kWrite), 0.1 * 0.4 * std::log(2), 1e-3);
}

TEST(HoldbackBlockTest, AKindThatHardlyComesDoesNotCount) {
  const auto block = MeasureBlock(Windows({.read_share = 1}), Windows({.read_share = 1}),
                                  Windows({.read_share = 1}));

  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_TRUE(block->has_read);
  EXPECT_FALSE(block->has_write);
  EXPECT_EQ(block->log_ratio[kComponentsPerKind], 0);
}

TEST(HoldbackBlockTest, RefusesWhatCannotBeCompared) {
  const auto few = MeasureBlock(Windows({}, 3), Windows({}), Windows({}));
  EXPECT_NE(few.status().message().find("3 windows before it"), std::string::npos);
  const auto another = MeasureBlock(Windows({}), Windows({.in_flight = 64}), Windows({}));
  EXPECT_NE(another.status().message().find("load size was another one"), std::string::npos);
  std::vector<env::Observation> open = Windows({});
  for (env::Observation& each : open) {
    each.descriptor.mean_in_flight = 0;
    each.descriptor.offered_ops_per_s = 1000;
  }
  EXPECT_NE(MeasureBlock(Windows({}), open, Windows({})).status().message().find("waited"),
            std::string::npos);
  const auto silent = MeasureBlock(Windows({.in_flight = 1e-3}), Windows({.in_flight = 1e-3}),
                                   Windows({.in_flight = 1e-3}));
  EXPECT_FALSE(silent.ok());
}

TEST(HoldbackBlockTest, CollectsAsManyTunedWindowsAfterAsBefore) {
  HoldbackBlock block(PlanHoldback(10, 1), Windows({}, 25));
  for (int i = 0; i < 10; ++i) block.AddDefault(Window({.latency_us = 1100}));
  block.AddTuned(Window({}));  // not its time yet
  EXPECT_FALSE(block.waits_for_tuned());
  block.EndDefault();
  EXPECT_TRUE(block.waits_for_tuned());
  for (int i = 0; i < 10; ++i) block.AddTuned(Window({}));
  // What follows only proves that the load stayed: it is not measured.
  for (uint32_t i = 0; i < HoldbackBlock::kProofWindows; ++i) {
    EXPECT_FALSE(block.complete());
    block.AddTuned(Window({.latency_us = 500}));
  }

  EXPECT_TRUE(block.complete());
  const auto measured = block.Measure();
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->tuned_windows, 20U);
  EXPECT_NEAR(Uplift(measured), 0.10, 1e-3);
  EXPECT_EQ(measured->long_blocks, 0U);
  HoldbackBlock slow(PlanHoldback(10, 20), Windows({}, 40));
  for (int i = 0; i < 40; ++i) slow.AddDefault(Window({}));
  slow.EndDefault();
  for (int i = 0; i < 40; ++i) slow.AddTuned(Window({}));
  EXPECT_EQ(slow.Measure()->long_blocks, 1U);
}

}  // namespace
}  // namespace ebb::engine
