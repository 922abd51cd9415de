// The default's turns: when they come, what they prove, and when they do not happen.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

// A loop that keeps alpha = 80 and then does nothing but hold back.
void StartTuned(LoopBench& bench, double share = 0.25) {
  bench.config.holdback_share = share;
  bench.config.recheck_after_windows = 0;
  bench.StartLoop({{"alpha", 80}}, /*once=*/true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

bool InHoldback(LoopBench& bench) {
  const std::optional<OpenWork> open = bench.loop->record().open;
  return open && open->kind == OpenWork::Kind::kHoldback;
}

UpliftReport Uplift(LoopBench& bench) { return bench.loop->Status().uplift; }

double TrueUplift(LoopBench& bench) {
  return std::expm1(bench.node.TrueLogGain(bench.node.ReadSettings()->incumbent, 0.5));
}

TEST(NodeLoopHoldbackTest, UpliftIsMeasuredAgainstTheDefaultAndHoldsTheTruth) {
  int covered = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    env::SimpleModelConfig model = env::DefaultModelConfig();
    model.seed = seed;
    LoopBench bench(model);
    StartTuned(bench);
    EXPECT_FALSE(Uplift(bench).since_attach.effect.has_value());

    ASSERT_TRUE(bench.RunUntil([&] { return Uplift(bench).since_attach.blocks >= 10; }, 900));

    const UpliftSpan span = Uplift(bench).since_attach;
    ASSERT_TRUE(span.effect.has_value());
    const double truth = TrueUplift(bench);
    covered += span.effect->low < truth && truth < span.effect->high;
    EXPECT_NEAR(span.effect->mean, truth, 0.06);
    EXPECT_EQ(span.default_windows, 100U);
    EXPECT_EQ(span.tuned_windows, 200U);
    EXPECT_EQ(bench.Events("holdback_block").size(), 10U);
    EXPECT_EQ(Uplift(bench).dropped_blocks, 0U);
  }
  EXPECT_GE(covered, 4);
}

TEST(NodeLoopHoldbackTest, SaysWhyThereIsNoUplift) {
  LoopBench bench;
  bench.StartLoop({}, /*once=*/true);
  bench.Run(30);
  EXPECT_EQ(Uplift(bench).since_attach.missing, "the default runs, so there is nothing to compare");
  LoopBench off;
  StartTuned(off, 0);
  off.Run(100);
  EXPECT_EQ(Uplift(off).since_attach.missing, "no holdback, as it is configured");
  LoopBench young;
  StartTuned(young);
  ASSERT_TRUE(young.RunUntil([&] { return Uplift(young).since_attach.blocks == 2; }, 300));
  EXPECT_EQ(Uplift(young).since_attach.missing, "not enough holdback yet: 2 of 5 blocks");
}

TEST(NodeLoopHoldbackTest, BlocksSurviveADeathOfTheSidecar) {
  LoopBench bench;
  StartTuned(bench);
  ASSERT_TRUE(bench.RunUntil([&] { return Uplift(bench).since_attach.blocks >= 6; }, 600));
  const Effect before = *Uplift(bench).since_attach.effect;

  ASSERT_TRUE(bench.RunUntil([&] { return InHoldback(bench); }, 300));
  bench.Kill();
  bench.StartLoop({}, /*once=*/true);
  bench.Run(2);

  EXPECT_TRUE(bench.NodeIsClean());
  EXPECT_EQ(Uplift(bench).since_attach.blocks, 6U);
  EXPECT_EQ(Uplift(bench).since_attach.effect->mean, before.mean);
}

TEST(NodeLoopHoldbackTest, TroubleEndsADefaultsTurnAndKeepsTheNextOneAway) {
  for (const bool draining : {false, true}) {
    LoopBench bench;
    StartTuned(bench);
    ASSERT_TRUE(bench.RunUntil([&] { return InHoldback(bench); }, 300));

    bench.node.SetDirtyShare(draining ? 0.3 : 0.97);
    bench.node.SetDraining(draining);
    bench.Run(1);

    EXPECT_FALSE(InHoldback(bench));
    EXPECT_EQ(bench.Value("alpha"), 80);
    EXPECT_EQ(Uplift(bench).dropped_blocks, 1U);
    EXPECT_NE(Uplift(bench).last_dropped.find(draining ? "draining" : "nearly full"),
              std::string::npos);
    const size_t turns = bench.Events("holdback").size();
    bench.Run(200);
    EXPECT_EQ(bench.Events("holdback").size(), turns);
    bench.node.SetDirtyShare(0.3);
    bench.node.SetDraining(false);
    EXPECT_TRUE(bench.RunUntil([&] { return InHoldback(bench); }, 300));
  }
}

TEST(NodeLoopHoldbackTest, NoTurnWithoutLeaveToChangeAnything) {
  LoopBench bench;
  StartTuned(bench);
  const size_t turns = bench.Events("holdback").size();
  ASSERT_TRUE(bench.loop->SetMode(Mode::kObserve, "operator:root").ok());

  bench.Run(200);

  EXPECT_EQ(bench.Events("holdback").size(), turns);
}

TEST(NodeLoopHoldbackTest, ABlockInWhichTheLoadShiftedDoesNotCount) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  // A shift every 60 windows: some fall into blocks.
  for (uint64_t i = 3; i < 20; ++i)
    model.steps.push_back({60 * i, i % 2 == 0 ? 1.0 : 6.0, 0.5, 4096});
  LoopBench bench(model);
  StartTuned(bench);

  bench.Run(900);

  EXPECT_GE(Uplift(bench).dropped_blocks, 1U);
  EXPECT_EQ(Uplift(bench).last_dropped, "the load shifted");
  EXPECT_EQ(bench.Events("holdback_dropped").size(), Uplift(bench).dropped_blocks);
}

TEST(NodeLoopHoldbackTest, ASlowKnobGetsLongBlocks) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.knobs[0].settle_seconds = 8;
  LoopBench bench(model);
  StartTuned(bench);

  ASSERT_TRUE(bench.RunUntil([&] { return Uplift(bench).since_attach.blocks == 2; }, 600));

  EXPECT_EQ(Uplift(bench).since_attach.long_blocks, 2U);
  EXPECT_EQ(Uplift(bench).since_attach.default_windows, 32U);
}

TEST(NodeLoopHoldbackTest, NoTrialBetweenADefaultsTurnAndTheWindowsAfterIt) {
  LoopBench bench;
  bench.config.holdback_share = 0.25;
  bench.config.back_off_windows = 1;
  bench.config.back_off_windows_max = 1;
  bench.config.envelope.trials_per_hour_max = 1000;
  bench.StartLoop({{"alpha", 80}, {"sham", 800}, {"sham", 100}});

  bench.Run(1500);

  // The agent asks all the time, and still the default gets its turns, and every one counts.
  EXPECT_GE(Uplift(bench).since_attach.blocks, 8U);
  EXPECT_GE(bench.Changes().size(), 15U);
  EXPECT_EQ(Uplift(bench).dropped_blocks, 0U) << Uplift(bench).last_dropped;
}

}  // namespace
}  // namespace ebb::engine
