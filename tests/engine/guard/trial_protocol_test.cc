#include "engine/guard/trial_protocol.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::engine {
namespace {

std::vector<LogSample> Before(Rng& rng, int windows = 30) {
  std::vector<LogSample> samples;
  for (int64_t i = 0; i < windows; ++i) samples.push_back({i, false, 0.02 * rng.Normal()});
  return samples;
}

TrialWindow Usable(int64_t window, bool candidate, double log_index) {
  TrialWindow made;
  made.window = window;
  made.candidate = candidate;
  made.usable = true;
  made.log_index = log_index;
  return made;
}

TrialWindow Unusable(int64_t window) {
  TrialWindow made;
  made.window = window;
  made.candidate = true;
  return made;
}

TEST(TrialProtocolTest, SettlesThenScreensThenConfirmsInPairs) {
  Rng rng(1);
  TrialProtocol protocol(TrialConfig{}, Before(rng));
  std::vector<bool> candidate_ran;
  bool candidate = true;
  for (int64_t window = 30; window < 200; ++window) {
    candidate_ran.push_back(candidate);
    const double log_index = (candidate ? 0.2 : 0.0) + 0.02 * rng.Normal();
    const TrialStep step = protocol.Next(Usable(window, candidate, log_index));
    if (step.decided) break;
    candidate = step.run_candidate;
  }

  EXPECT_EQ(protocol.verdict().verdict, Verdict::kKeep) << protocol.verdict().reason;
  // 1 settling + 6 screening, then 3 pairs of legs of 1 settling + 2 measured windows.
  const std::vector<bool> expected = {true,  true,  true,  true,  true,  true,  true,  false, false,
                                      false, true,  true,  true,  false, false, false, true,  true,
                                      true,  false, false, false, true,  true,  true};
  EXPECT_EQ(candidate_ran, expected);
  EXPECT_EQ(protocol.verdict().windows_used, 25U);
  ASSERT_TRUE(protocol.verdict().effect.has_value());
  EXPECT_NEAR(protocol.verdict().effect->mean, std::expm1(0.2), 0.05);
  EXPECT_GT(protocol.verdict().smallest_detectable, 0);
}

TEST(TrialProtocolTest, TwoDisastrousWindowsEndItEvenWhileSettling) {
  Rng rng(2);
  TrialConfig config;
  config.settle_windows = 10;
  TrialProtocol protocol(config, Before(rng));

  EXPECT_FALSE(protocol.Next(Usable(30, true, -0.7)).decided);
  const TrialStep step = protocol.Next(Usable(31, true, -0.7));

  EXPECT_TRUE(step.decided);
  EXPECT_FALSE(step.run_candidate);
  EXPECT_EQ(protocol.verdict().verdict, Verdict::kRevert);
}

TEST(TrialProtocolTest, OneDisastrousWindowIsForgiven) {
  Rng rng(3);
  TrialProtocol protocol(TrialConfig{}, Before(rng));

  EXPECT_FALSE(protocol.Next(Usable(30, true, -0.7)).decided);
  EXPECT_FALSE(protocol.Next(Usable(31, true, 0.0)).decided);
  EXPECT_FALSE(protocol.Next(Usable(32, true, 0.0)).decided);
}

TEST(TrialProtocolTest, BlindWindowsMakeItVoid) {
  Rng rng(4);
  TrialConfig config;
  TrialProtocol protocol(config, Before(rng));
  TrialStep step;
  int64_t window = 30;
  while (!step.decided) step = protocol.Next(Unusable(window++));

  EXPECT_EQ(protocol.verdict().verdict, Verdict::kVoid);
  EXPECT_EQ(window - 30, config.settle_windows + config.void_windows_max + 1);
}

TEST(TrialProtocolTest, IdleWindowsAreForgivenLonger) {
  Rng rng(7);
  TrialConfig config;
  TrialProtocol protocol(config, Before(rng));
  TrialStep step;
  int64_t window = 30;
  while (!step.decided) {
    TrialWindow idle = Unusable(window++);
    idle.idle = true;
    step = protocol.Next(idle);
  }

  EXPECT_EQ(protocol.verdict().verdict, Verdict::kVoid);
  EXPECT_EQ(window - 30, config.settle_windows + config.idle_windows_max + 1);
}

TEST(TrialProtocolTest, AWindowWithBothSettingsOnlySettles) {
  Rng rng(8);
  TrialProtocol protocol(TrialConfig{}, Before(rng));
  TrialWindow mixed = Usable(30, true, 0);
  mixed.mixture = true;

  protocol.Next(mixed);
  EXPECT_EQ(protocol.phase(), TrialPhase::kScreening);
  mixed.window = 31;
  protocol.Next(mixed);

  EXPECT_FALSE(protocol.verdict().effect.has_value());
}

TEST(TrialProtocolTest, AGainThatLeavesWorkForLaterIsNotKept) {
  for (const double growth : {0.0, 0.01}) {
    Rng rng(9);
    TrialProtocol protocol(TrialConfig{}, Before(rng));
    bool candidate = true;
    double backlog = 0.2;
    for (int64_t window = 30; window < 200; ++window) {
      backlog += 0.003 * rng.Normal() + (candidate ? growth : -growth);
      TrialWindow next = Usable(window, candidate, (candidate ? 0.2 : 0.0) + 0.02 * rng.Normal());
      next.backlog_share = backlog;
      const TrialStep step = protocol.Next(next);
      if (step.decided) break;
      candidate = step.run_candidate;
    }

    EXPECT_EQ(protocol.verdict().verdict, growth > 0 ? Verdict::kInconclusive : Verdict::kKeep)
        << protocol.verdict().reason;
    EXPECT_EQ(protocol.verdict().reason.find("borrowed") != std::string::npos, growth > 0);
  }
}

TEST(TrialProtocolTest, SettlingLastsWhileTheBacklogMoves) {
  Rng rng(10);
  TrialConfig config;
  config.settle_windows = 4;
  TrialProtocol moving(config, Before(rng));
  TrialProtocol still(config, Before(rng));
  for (int64_t window = 30; window < 34; ++window) {
    TrialWindow next = Usable(window, true, 0);
    still.Next(next);
    next.backlog_share = 0.02 * static_cast<double>(window);
    moving.Next(next);
  }
  EXPECT_EQ(still.phase(), TrialPhase::kScreening);
  EXPECT_EQ(moving.phase(), TrialPhase::kSettling);

  for (int64_t window = 34; window < 38; ++window) {
    TrialWindow next = Usable(window, true, 0);
    next.backlog_share = 0.02 * static_cast<double>(window);
    moving.Next(next);
  }

  EXPECT_EQ(moving.phase(), TrialPhase::kScreening);  // at most twice as long
}

TEST(TrialProtocolTest, AbortIsVoidAndTripIsRevert) {
  Rng rng(5);
  TrialProtocol aborted(TrialConfig{}, Before(rng));
  TrialProtocol tripped(TrialConfig{}, Before(rng));

  aborted.Abort("the load became a different one");
  tripped.Tripped("read p99 over its limit");

  EXPECT_EQ(aborted.verdict().verdict, Verdict::kVoid);
  EXPECT_EQ(aborted.verdict().reason, "the load became a different one");
  EXPECT_EQ(tripped.verdict().verdict, Verdict::kRevert);
}

TEST(TrialProtocolTest, SkippedScreeningStartsWithPairs) {
  Rng rng(6);
  TrialConfig config;
  config.skip_screening = true;
  TrialProtocol protocol(config, Before(rng));
  bool candidate = true;
  uint32_t windows = 0;
  for (int64_t window = 30; window < 200; ++window, ++windows) {
    const TrialStep step =
        protocol.Next(Usable(window, candidate, (candidate ? 0.2 : 0.0) + 0.02 * rng.Normal()));
    if (step.decided) break;
    candidate = step.run_candidate;
  }

  EXPECT_EQ(protocol.verdict().verdict, Verdict::kKeep) << protocol.verdict().reason;
  EXPECT_EQ(windows + 1, 15U);  // B, A B, A B with 1 settling + 2 measured windows each
}

// Goal: whatever comes in, the machine ends, stays within its caps and never keeps without pairs.
// Method: random configurations and random windows, among them wild and unusable ones.
TEST(TrialProtocolTest, HoldsItsPromisesOnRandomWindows) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    TrialConfig config;
    config.settle_windows = 1 + static_cast<uint32_t>(rng.Below(4));
    config.leg_windows = 1 + static_cast<uint32_t>(rng.Below(3));
    config.pairs_min = 1 + static_cast<uint32_t>(rng.Below(4));
    config.pairs_max = config.pairs_min + static_cast<uint32_t>(rng.Below(4));
    config.skip_screening = rng.Chance(0.3);
    TrialProtocol protocol(config, Before(rng, 10 + static_cast<int>(rng.Below(60))));
    const double effect = rng.Normal() * 0.1;
    const double void_share = rng.Chance(0.5) ? 0 : 0.1;
    const uint32_t leg = config.settle_windows + config.leg_windows;
    const uint32_t cap =
        leg + config.screen_windows + 2 * leg * config.pairs_max + config.void_windows_max + 1;

    bool candidate = true;
    uint32_t changes = 0;
    int64_t window = 100;
    TrialStep step;
    for (uint32_t i = 0; i <= cap && !step.decided; ++i) {
      window += rng.Chance(0.02) ? 5 : 1;
      const double wild = rng.Chance(0.02) ? 2 * rng.Normal() : 0;
      TrialWindow next =
          Usable(window, candidate, (candidate ? effect : 0) + 0.05 * rng.Normal() + wild);
      next.usable = !rng.Chance(void_share);
      next.mixture = rng.Chance(void_share);
      step = protocol.Next(next);
      if (step.run_candidate != candidate) ++changes;
      candidate = step.run_candidate;
    }

    ASSERT_TRUE(step.decided);
    EXPECT_FALSE(step.run_candidate);
    const TrialVerdict& verdict = protocol.verdict();
    EXPECT_NE(verdict.verdict, Verdict::kPending);
    EXPECT_FALSE(verdict.reason.empty());
    EXPECT_LE(verdict.windows_used, cap);
    EXPECT_LE(protocol.pairs_done(), config.pairs_max);
    if (verdict.verdict == Verdict::kKeep) {
      EXPECT_GE(protocol.pairs_done(), config.pairs_min);
      ASSERT_TRUE(verdict.effect.has_value());
      EXPECT_GT(verdict.effect->low, 0);
      EXPECT_GE(changes, 2 * config.pairs_min - 1);
    }
    if (verdict.effect) {
      EXPECT_LE(verdict.effect->low, verdict.effect->mean);
      EXPECT_LE(verdict.effect->mean, verdict.effect->high);
    }
  }
}

}  // namespace
}  // namespace ebb::engine
