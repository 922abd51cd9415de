#include "engine/loop/node_loop.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

const ScriptedAgent::Move kGood{"alpha", 80};
const ScriptedAgent::Move kSham{"sham", 800};
const ScriptedAgent::Move kPoison{"poison", 8};

TEST(NodeLoopTest, LearnsTheDefaultThenKeepsWhatHelps) {
  LoopBench bench;
  bench.StartLoop({kGood}, /*once=*/true);

  bench.Run(10);
  EXPECT_EQ(bench.loop->Status().state, TunerState::kLearningBaseline);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }))
      << bench.loop->Status().why;
  bench.Run(40);

  const Change change = bench.Changes().front();
  EXPECT_EQ(bench.Value("alpha"), 80);
  EXPECT_TRUE(bench.NodeIsClean());
  EXPECT_EQ(change.actor, "agent:scripted");
  ASSERT_TRUE(change.measured.has_value());
  const double truth = std::expm1(bench.node.TrueLogGain(bench.node.ReadSettings()->current, 0.5));
  EXPECT_LT(change.measured->low, truth);
  EXPECT_GT(change.measured->high, truth);
  EXPECT_GT(change.windows_used, 20U);
  EXPECT_GT(change.smallest_detectable, 0);
  ASSERT_TRUE(bench.loop->Status().index_minute.has_value());
  EXPECT_NEAR(*bench.loop->Status().index_minute, 100 * (1 + truth), 8);
  std::vector<std::string> steps;
  for (const ChangeStep& step : change.steps) steps.push_back(step.step);
  EXPECT_EQ(steps.front(), "proposed");
  EXPECT_EQ(steps.back(), "kept");
  EXPECT_NE(std::find(steps.begin(), steps.end(), "confirming"), steps.end());
  EXPECT_TRUE(bench.history->Verify().ok());
}

TEST(NodeLoopTest, HarmIsRolledBackEveryTimeAndTheHistorySaysWhy) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    env::SimpleModelConfig model = env::DefaultModelConfig();
    model.seed = seed;
    LoopBench bench(model);
    bench.StartLoop({kPoison}, /*once=*/true);

    ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kRevert).empty(); }));

    const Change change = bench.Changes().front();
    EXPECT_EQ(change.verdict, Verdict::kRevert);
    EXPECT_FALSE(change.verdict_reason.empty());
    EXPECT_LE(change.windows_used, 5U);
    EXPECT_EQ(bench.Value("poison"), 0);
    EXPECT_TRUE(bench.NodeIsClean());
  }
}

TEST(NodeLoopTest, AShamKnobIsNotKept) {
  int kept = 0;
  size_t trials = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    env::SimpleModelConfig model = env::DefaultModelConfig();
    model.seed = 100 + seed;
    LoopBench bench(model);
    bench.config.back_off_windows = 1;
    bench.config.back_off_windows_max = 1;
    bench.config.envelope.trials_per_hour_max = 1000;
    bench.StartLoop({kSham, {"sham", 100}});

    bench.Run(600);

    kept += static_cast<int>(bench.Changes(Verdict::kKeep).size());
    trials += bench.Changes().size();
  }

  EXPECT_GE(trials, 150U);
  EXPECT_LE(kept, static_cast<int>(trials / 50));  // 2 %
}

TEST(NodeLoopTest, AProposalThatChangesNothingIsRefused) {
  LoopBench bench;
  bench.StartLoop({{"sham", 500}});

  bench.Run(300);

  EXPECT_TRUE(bench.Changes().empty());
  EXPECT_EQ(bench.Events("refused").size(), 1U);  // said once, not 64 times
  EXPECT_EQ(bench.loop->Status().state, TunerState::kConverged);
}

TEST(NodeLoopTest, ARevertedMoveIsNotTriedAgainSoon) {
  LoopBench bench;
  bench.StartLoop({kPoison});

  bench.Run(400);

  EXPECT_EQ(bench.Changes(Verdict::kRevert).size(), 1U);
}

TEST(NodeLoopTest, OperatorsKnobsAndPinsAreNotTouched) {
  LoopBench bench;
  bench.StartLoop({{"codec", 0}, kGood});
  bench.Run(2);
  ASSERT_TRUE(bench.loop->Pin("alpha", true, "operator:root").ok());
  EXPECT_EQ(bench.loop->Pin("nonsense", true, "operator:root").code(), absl::StatusCode::kNotFound);

  bench.Run(300);

  EXPECT_TRUE(bench.Changes().empty());
  ASSERT_TRUE(bench.loop->Pin("alpha", false, "operator:root").ok());
  EXPECT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

TEST(NodeLoopTest, PinningAKnobEndsItsTrial) {
  LoopBench bench;
  bench.StartLoop({kGood}, true);
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));

  ASSERT_TRUE(bench.loop->Pin("alpha", true, "operator:root").ok());
  bench.Run(1);

  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench.Value("alpha"), 30);
}

TEST(NodeLoopTest, ForeignChangeWinsIsRecordedAndLeftAlone) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));
  env::Setting theirs = bench.node.space().Default();
  theirs.values[*bench.node.space().Find("alpha")] = 50;

  bench.node.ChangeFromOutside(theirs);
  bench.Run(2);

  const std::vector<Change> changes = bench.Changes();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].actor, "foreign");
  EXPECT_EQ(changes[0].knobs.size(), 1U);
  EXPECT_EQ(changes[0].knobs[0].to, 50);
  EXPECT_EQ(changes[1].verdict, Verdict::kVoid);
  bench.Run(200);
  EXPECT_EQ(bench.Value("alpha"), 50);
  EXPECT_EQ(bench.Changes().size(), 2U);
  EXPECT_NEAR(*bench.loop->Status().index_minute, 100, 5);  // their setting is the default now
}

TEST(NodeLoopTest, AForeignIncumbentIsNoticedWithoutAnEventAboutIt) {
  LoopBench bench;
  bench.StartLoop({});
  bench.Run(30);
  env::Setting theirs = bench.node.space().Default();
  theirs.values[*bench.node.space().Find("alpha")] = 50;

  ASSERT_TRUE(bench.node.SetIncumbent(theirs, "somebody", "by hand").ok());
  bench.Run(3);

  ASSERT_EQ(bench.Changes().size(), 1U);
  EXPECT_EQ(bench.Changes().front().actor, "foreign");
  EXPECT_TRUE(bench.loop->record().pins.contains("alpha"));
}

TEST(NodeLoopTest, AnotherTunersCandidateIsWaitedForNotReplaced) {
  LoopBench bench;
  bench.StartLoop({kGood});
  bench.Run(15);
  env::Setting theirs = bench.node.space().Default();
  theirs.values[*bench.node.space().Find("sham")] = 600;
  const uint64_t version = bench.node.ReadSettings()->version;
  const auto applied = bench.node.Apply(
      theirs, version, {.lease_ms = 60'000, .trips = {}, .actor = "x", .reason = ""});
  ASSERT_TRUE(applied.ok());

  bench.Run(50);

  EXPECT_EQ(bench.Value("sham"), 600);
  EXPECT_NE(bench.loop->Status().why.find("somebody else"), std::string::npos);
  EXPECT_TRUE(bench.Changes().empty());
  EXPECT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

TEST(NodeLoopTest, NodeRestartVoidsTheTrial) {
  LoopBench bench;
  bench.StartLoop({kGood}, true);
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));

  bench.node.Restart();
  bench.Run(2);

  const Change change = bench.Changes().front();
  EXPECT_EQ(change.verdict, Verdict::kVoid);
  EXPECT_EQ(change.verdict_reason, "the node was restarted");
  EXPECT_EQ(bench.Events("node_restarted").size(), 1U);
  EXPECT_TRUE(bench.NodeIsClean());
  EXPECT_EQ(bench.agent->learned.back().outcome, agents::Outcome::kVoid);
}

TEST(NodeLoopTest, LoadShiftVoidsTheTrialAndIsLearnedAnew) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.steps = {{40, 1, 0.95, 65536}};
  LoopBench bench(model);
  bench.StartLoop({kGood});

  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Events("shift").empty(); }, 60));

  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench.loop->Status().state, TunerState::kLearningBaseline);
  EXPECT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

TEST(NodeLoopTest, ANewLoadAfterAKeepRunsTheDefaultBriefly) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.steps = {{120, 1, 0.95, 65536}};
  LoopBench bench(model);
  bench.StartLoop({kGood}, true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }, 119));

  bench.Run(120);

  EXPECT_FALSE(bench.Events("holdback").empty());
  EXPECT_EQ(bench.Value("alpha"), 80);
  ASSERT_TRUE(bench.loop->Status().index_minute.has_value());
  const double truth =
      100 * std::exp(bench.node.TrueLogGain(bench.node.ReadSettings()->incumbent, 0.95));
  EXPECT_NEAR(*bench.loop->Status().index_minute, truth, 12);
}

TEST(NodeLoopTest, HoldbackKeepsTheIndexHonestWhenTheMachineDrifts) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.drift_per_window = -0.0005;
  LoopBench bench(model);
  bench.config.recheck_after_windows = 0;
  bench.StartLoop({kGood}, true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));

  bench.Run(800);  // the machine loses a third

  EXPECT_GE(bench.Events("holdback").size(), 3U);
  EXPECT_TRUE(bench.NodeIsClean());
  const auto points = bench.history->ReadSeries("node-a", 0, bench.clock.WallMs() + 1, 10'000);
  ASSERT_TRUE(points.ok());
  const auto held = std::count_if(points->buckets.begin(), points->buckets.end(),
                                  [](const SeriesBucket& window) { return window.mean.holdback; });
  EXPECT_GT(held, 30);
  EXPECT_LT(held, static_cast<int64_t>(points->buckets.size() / 10));
}

TEST(NodeLoopTest, AKeptChangeIsReCheckedLater) {
  LoopBench bench;
  bench.config.recheck_after_windows = 30;
  bench.StartLoop({kGood}, true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));

  ASSERT_TRUE(bench.RunUntil([&] {
    return bench.Changes().front().actor == "guard" &&
           bench.Changes().front().verdict != Verdict::kPending;
  }));

  EXPECT_NE(bench.Changes().front().verdict, Verdict::kKeep);
  EXPECT_EQ(bench.Value("alpha"), 80);
  EXPECT_TRUE(bench.NodeIsClean());
}

TEST(NodeLoopTest, ObserveModeTouchesNothing) {
  LoopBench bench;
  bench.mode = Mode::kObserve;
  bench.StartLoop({kGood});

  bench.Run(200);

  EXPECT_TRUE(bench.node.calls().empty());
  EXPECT_EQ(bench.loop->Status().state, TunerState::kObserving);
  EXPECT_NEAR(*bench.loop->Status().index_minute, 100, 5);
}

TEST(NodeLoopTest, PauseEndsTheTrialAndResumesAtItsEnd) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));
  EXPECT_FALSE(bench.loop->Pause("", bench.clock.WallMs() - 1, "operator:root").ok());

  ASSERT_TRUE(bench.loop->Pause("backup", bench.clock.WallMs() + 30'000, "operator:root").ok());
  EXPECT_TRUE(bench.loop->Status().paused);
  bench.Run(2);

  EXPECT_EQ(bench.loop->Status().state, TunerState::kPaused);
  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  EXPECT_NE(bench.Changes().front().verdict_reason.find("backup"), std::string::npos);
  EXPECT_EQ(bench.Value("alpha"), 30);
  bench.Run(30);
  EXPECT_FALSE(bench.loop->Status().paused);
  EXPECT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

TEST(NodeLoopTest, RestoreBringsBackTheSettingFromBeforeAttachInAnyState) {
  for (const TunerState state :
       {TunerState::kLearningBaseline, TunerState::kSettling, TunerState::kScreening,
        TunerState::kConfirming, TunerState::kConverged}) {
    SCOPED_TRACE(TunerStateWord(state));
    LoopBench bench;
    bench.StartLoop({kGood}, true);
    ASSERT_TRUE(bench.RunUntilState(state));

    ASSERT_TRUE(bench.loop->Restore("operator:root").ok());
    bench.Run(2);

    EXPECT_EQ(bench.node.ReadSettings()->current, bench.node.space().Default());
    EXPECT_TRUE(bench.NodeIsClean());
    EXPECT_TRUE(bench.loop->Status().paused);
    EXPECT_EQ(bench.Changes().front().actor, "operator:root");
    EXPECT_EQ(bench.Changes().front().verdict, Verdict::kKeep);
    bench.Run(100);
    EXPECT_EQ(bench.node.ReadSettings()->current, bench.node.space().Default());
  }
}

TEST(NodeLoopTest, GoalChangeStartsANewJudgement) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));

  ASSERT_TRUE(bench.loop->SetGoal(agents::GoalKind::kRead, "operator:root").ok());
  bench.Run(1);

  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench.Events("goal").size(), 1U);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
  EXPECT_EQ(bench.Changes(Verdict::kKeep).front().goal, "read");
}

TEST(NodeLoopTest, LosesAndFindsTheNodeAgain) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));

  bench.node.FailNextObserve(absl::UnavailableError("connection reset"));
  bench.unreachable = true;
  bench.Run(3);

  EXPECT_EQ(bench.loop->Status().state, TunerState::kDisconnected);
  EXPECT_FALSE(bench.loop->Status().connected);
  EXPECT_EQ(bench.loop->Status().why, "nobody listens");
  bench.clock.AdvanceNs(10'000'000'000);  // the lease runs out on the node
  EXPECT_TRUE(bench.NodeIsClean());
  bench.unreachable = false;
  bench.Run(2);
  EXPECT_TRUE(bench.loop->Status().connected);
  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  EXPECT_NE(bench.Changes().front().verdict_reason.find("interrupted"), std::string::npos);
  EXPECT_EQ(bench.Events("disconnected").size(), 1U);  // once, not at every attempt
  EXPECT_EQ(bench.Events("connected").size(), 1U);
  EXPECT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

TEST(NodeLoopTest, FailedApplyIsVoidAndNoBadMark) {
  LoopBench bench;
  bench.StartLoop({kGood});
  bench.node.FailNextApply(absl::InternalError("EIO"));

  ASSERT_TRUE(bench.RunUntil([&] { return bench.Changes().size() == 2; }));
  EXPECT_EQ(bench.Changes().back().verdict, Verdict::kVoid);
  EXPECT_NE(bench.Changes().back().verdict_reason.find("EIO"), std::string::npos);
  EXPECT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
}

TEST(NodeLoopTest, TripWireOfTheNodeIsARevertWithItsReading) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  LoopBench bench(model);
  bench.config.trip_wires = {.p99_factor = 1.3, .p99_floor_us = 0, .throughput_share_min = 0};
  bench.StartLoop({{"poison", 10}}, true);

  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kRevert).empty(); }));

  EXPECT_NE(bench.Changes().front().verdict_reason.find("p99_us_max"), std::string::npos);
  EXPECT_TRUE(bench.NodeIsClean());
}

TEST(NodeLoopTest, AFullHistoryDiskStopsTrialsAndIsTold) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kConfirming));

  bench.disk->full = true;
  bench.Run(60);

  EXPECT_TRUE(bench.NodeIsClean());
  EXPECT_EQ(bench.Value("alpha"), 30);
  EXPECT_NE(bench.loop->Status().health.find("no space"), std::string::npos);
  EXPECT_FALSE(bench.loop->Pause("x", std::nullopt, "operator:root").ok());
  bench.disk->full = false;
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
  EXPECT_EQ(bench.loop->Status().health, "ok");
  EXPECT_TRUE(bench.history->Verify().ok());
}

TEST(NodeLoopTest, BlindWindowsStopProposalsWithAReason) {
  LoopBench bench;
  bench.StartLoop({kGood});
  bench.Run(35);
  for (int i = 0; i < 20; ++i) {
    bench.node.VoidNextWindow("free space is 18446744073709546348");
    bench.Run(1);
  }

  EXPECT_NE(bench.loop->Status().why.find("18446744073709546348"), std::string::npos);
  EXPECT_TRUE(bench.NodeIsClean());
  EXPECT_GE(bench.loop->Status().void_windows, 20U);
}

TEST(NodeLoopTest, StoppingEndsAnOpenTrialAtOnce) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));

  bench.loop->Leave("the sidecar stops");

  EXPECT_TRUE(bench.NodeIsClean());
  EXPECT_EQ(bench.Changes().front().verdict_reason, "the sidecar stops");
}

}  // namespace
}  // namespace ebb::engine
