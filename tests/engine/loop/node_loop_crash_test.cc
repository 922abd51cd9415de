// kill -9 of the sidecar at every step: after each call that leaves it, to the node or the history.
#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

struct Scenario {
  const char* name;
  ScriptedAgent::Move move;
  bool restore;
  uint64_t dead_ms;  // 0: the lease still runs when the sidecar is back; else it ran out
};

class NodeLoopCrash : public testing::TestWithParam<Scenario> {
 protected:
  // From the first window until the trial (and the restore) is over.
  static void Act(LoopBench& bench) {
    const Scenario& run = GetParam();
    bench.StartLoop({run.move}, /*once=*/true);
    bool asked = false;
    for (int i = 0; i < 80 && !bench.power.dead; ++i) {
      bench.loop->RunOneWindow();
      if (run.restore && !asked && bench.loop->Status().state == TunerState::kConfirming) {
        asked = bench.loop->Restore("operator:root").ok();
      }
    }
  }
  static LoopConfig Config() {
    LoopConfig config;
    config.recheck_after_windows = 0;
    config.holdback_share = 0.3;  // often, so that blocks are hit as well
    return config;
  }
};

// Goal: wherever the sidecar dies, the node ends on a setting that the history knows, no trial
// stays open, and nothing is lost or invented.
TEST_P(NodeLoopCrash, AtEveryStepTheNextSidecarFindsItsWay) {
  uint64_t calls = 0;
  uint64_t learned = 0;
  {
    LoopBench counting;
    counting.config = Config();
    counting.StartLoop({GetParam().move}, /*once=*/true);
    counting.RunUntil([&] { return !counting.Changes().empty(); });
    learned = counting.power.calls - 12;
  }
  {
    LoopBench counting;
    counting.config = Config();
    Act(counting);
    calls = counting.power.calls;
  }
  ASSERT_GT(calls, learned + 60);

  // While it learns, every window makes the same calls: a few of those will do.
  for (uint64_t step = 0; step < calls; step += step < 12 || step > learned ? 1 : 17) {
    SCOPED_TRACE(testing::Message() << "killed at call " << step);
    LoopBench bench;
    bench.config = Config();
    bench.power.calls_left = step;
    Act(bench);
    ASSERT_TRUE(bench.power.dead);
    const size_t changes_before = bench.Changes().size();
    bench.Kill(GetParam().dead_ms);

    bench.StartLoop({}, /*once=*/true);
    bench.Run(2);

    const env::SettingState state = *bench.node.ReadSettings();
    ASSERT_TRUE(state.lease.empty());
    ASSERT_EQ(state.current, state.incumbent);
    ASSERT_TRUE(bench.Changes(Verdict::kPending).empty());
    ASSERT_FALSE(bench.loop->record().open.has_value());
    ASSERT_TRUE(bench.loop->Status().connected) << bench.loop->Status().why;
    ASSERT_TRUE(bench.history->Verify().ok()) << bench.history->Verify().status();
    // A restore that was promised before the kill may be carried out after it: one change more.
    ASSERT_LE(bench.Changes().size(), changes_before + (GetParam().restore ? 1 : 0));
    // What runs is the default plus exactly the changes that the history says were kept.
    env::Setting expected = bench.node.space().Default();
    const std::vector<Change> changes = bench.Changes();
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
      ASSERT_NE(change->actor, "foreign");
      ASSERT_FALSE(change->verdict_reason.empty());
      if (change->verdict != Verdict::kKeep) continue;
      for (const env::KnobChange& knob : change->knobs) {
        expected.values[*bench.node.space().Find(knob.knob)] = knob.to;
      }
    }
    ASSERT_EQ(state.incumbent, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, NodeLoopCrash,
                         testing::Values(Scenario{"KeepLeaseAlive", {"alpha", 80}, false, 0},
                                         Scenario{"KeepLeaseGone", {"alpha", 80}, false, 60'000},
                                         Scenario{"RevertLeaseAlive", {"poison", 8}, false, 0},
                                         Scenario{"RevertLeaseGone", {"poison", 8}, false, 60'000},
                                         Scenario{"RestoreLeaseAlive", {"alpha", 80}, true, 0},
                                         Scenario{"RestoreLeaseGone", {"alpha", 80}, true, 60'000}),
                         [](const auto& run) { return run.param.name; });

TEST(NodeLoopRestartTest, TheRestartedSidecarSaysWhatHappened) {
  LoopBench bench;
  bench.StartLoop({{"alpha", 80}});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));

  bench.Kill(/*dead_ms=*/60'000);
  EXPECT_TRUE(bench.NodeIsClean());  // by itself, within the lease
  bench.StartLoop({});
  bench.Run(1);

  const Change change = bench.Changes().front();
  EXPECT_EQ(change.verdict, Verdict::kVoid);
  EXPECT_NE(change.verdict_reason.find("the lease ran out"), std::string::npos)
      << change.verdict_reason;
}

TEST(NodeLoopRestartTest, KeepsWhatItLearnedAndWhatItWasTold) {
  LoopBench bench;
  bench.StartLoop({{"alpha", 80}}, true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Events("holdback").empty(); }));
  bench.Run(60);
  ASSERT_TRUE(bench.loop->SetGoal(agents::GoalKind::kWrite, "operator:root").ok());
  ASSERT_TRUE(bench.loop->Pause("night", std::nullopt, "operator:root").ok());

  bench.Kill();
  bench.StartLoop({});
  bench.Run(5);

  const NodeStatus status = bench.loop->Status();
  EXPECT_EQ(status.goal, agents::GoalKind::kWrite);
  EXPECT_TRUE(status.paused);
  EXPECT_EQ(status.pause_reason, "night");
  EXPECT_TRUE(status.index_now.has_value()) << status.why;
  EXPECT_EQ(bench.Value("alpha"), 80);
  for (const KnobState& knob : bench.loop->Knobs()) {
    EXPECT_EQ(knob.source, knob.spec.name == "alpha" ? "tuner" : "default");
  }
}

TEST(NodeLoopRestartTest, ASettingChangedWhileTheSidecarWasDeadIsForeign) {
  LoopBench bench;
  bench.StartLoop({});
  bench.Run(5);
  bench.Kill();
  env::Setting theirs = bench.node.space().Default();
  theirs.values[*bench.node.space().Find("beta")] = 16 << 20;
  bench.node.ChangeFromOutside(theirs);

  bench.StartLoop({});
  bench.Run(2);

  ASSERT_EQ(bench.Changes().size(), 1U);
  EXPECT_EQ(bench.Changes().front().actor, "foreign");
  EXPECT_EQ(bench.Value("beta"), 16 << 20);
}

}  // namespace
}  // namespace ebb::engine
