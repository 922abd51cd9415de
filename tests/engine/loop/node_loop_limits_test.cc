// What keeps the loop's hands off: quiet hours, maintenance windows, the never-touch list, the
// budget.
#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

const ScriptedAgent::Move kGood{"alpha", 80};
const ScriptedAgent::Move kSham{"sham", 800};

class NodeLoopLimitsTest : public testing::Test {
 protected:
  void SetSchedule(const std::vector<std::string>& quiet,
                   const std::vector<std::string>& maintenance) {
    ScheduleConfig& schedule = bench_.config.schedule;
    for (const std::string& text : quiet) {
      schedule.quiet_hours.push_back(ParseWeeklySpan(text).value());
    }
    for (const std::string& text : maintenance) {
      schedule.maintenance.push_back(ParseWeeklySpan(text).value());
    }
    schedule.local_time = [this](int64_t) { return now_; };
  }
  void SetHour(int hour) { now_.minute = 60 * hour; }

  LocalTime now_;
  LoopBench bench_;
};

TEST_F(NodeLoopLimitsTest, InQuietHoursNothingStartsAndTheStatusSaysUntilWhen) {
  SetSchedule({"22:00-06:00"}, {});
  SetHour(23);
  bench_.StartLoop({kGood});

  bench_.Run(200);

  EXPECT_TRUE(bench_.node.calls().empty());
  EXPECT_EQ(bench_.loop->Status().why, "no trial now: quiet hours (22:00-06:00) until 06:00");
  SetHour(6);
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }));
  ASSERT_EQ(bench_.Events("quiet_hours").size(), 2U);  // their begin and their end, once each
  EXPECT_NE(bench_.Events("quiet_hours")[1].find("over"), std::string::npos);
}

TEST_F(NodeLoopLimitsTest, QuietHoursLetARunningTrialEnd) {
  SetSchedule({"22:00-06:00"}, {});
  SetHour(21);
  bench_.StartLoop({kGood, kSham});
  ASSERT_TRUE(bench_.RunUntilState(TunerState::kScreening));
  SetHour(22);

  bench_.Run(300);

  ASSERT_EQ(bench_.Changes().size(), 1U);
  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kKeep);
  EXPECT_TRUE(bench_.NodeIsClean());
}

TEST_F(NodeLoopLimitsTest, AMaintenanceWindowReturnsTheNodeToItsIncumbent) {
  SetSchedule({}, {"02:00-04:00"});
  SetHour(1);
  bench_.StartLoop({kGood});
  ASSERT_TRUE(bench_.RunUntilState(TunerState::kScreening));
  SetHour(2);

  bench_.Run(1);

  EXPECT_TRUE(bench_.NodeIsClean());
  EXPECT_EQ(bench_.Value("alpha"), 30);
  ASSERT_EQ(bench_.Changes().size(), 1U);
  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench_.Changes().front().verdict_reason,
            "maintenance window (02:00-04:00) until 04:00");
  bench_.Run(200);
  EXPECT_EQ(bench_.Changes().size(), 1U);
  SetHour(4);
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }));
}

TEST_F(NodeLoopLimitsTest, AnApprovalWaitsForTheEndOfTheQuietHours) {
  SetSchedule({"22:00-06:00"}, {});
  SetHour(21);
  bench_.mode = Mode::kApprove;
  bench_.StartLoop({kGood});
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.loop->Recommendations().empty(); }));
  const std::string id = bench_.loop->Recommendations().front().id;
  SetHour(23);
  bench_.Run(1);
  ASSERT_TRUE(bench_.loop->DecideRecommendation(id, true, "", "operator:al").ok());

  bench_.Run(100);

  EXPECT_TRUE(bench_.node.calls().empty());
  SetHour(7);
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }));
}

TEST_F(NodeLoopLimitsTest, AKnobOfTheNeverTouchListIsLeftAloneAndNobodyReleasesIt) {
  bench_.config.envelope.never_touch = {"alpha"};
  bench_.StartLoop({kGood});

  bench_.Run(200);

  EXPECT_TRUE(bench_.node.calls().empty());
  EXPECT_NE(bench_.loop->Status().why.find("alpha is on the never-touch list"), std::string::npos)
      << bench_.loop->Status().why;
  const absl::Status released = bench_.loop->Pin("alpha", false, "operator:al");
  EXPECT_EQ(released.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(released.message().find("never-touch"), std::string::npos);
  for (const KnobState& knob : bench_.loop->Knobs()) {
    EXPECT_EQ(knob.pinned, knob.spec.name == "alpha") << knob.spec.name;
  }
}

TEST_F(NodeLoopLimitsTest, AMistypedNeverTouchNameStopsTuning) {
  bench_.config.envelope.never_touch = {"alhpa"};
  bench_.StartLoop({kGood});

  bench_.Run(100);

  EXPECT_TRUE(bench_.node.calls().empty());
  EXPECT_NE(bench_.loop->Status().why.find("did you mean 'alpha'?"), std::string::npos)
      << bench_.loop->Status().why;
}

TEST_F(NodeLoopLimitsTest, AHoldbackMovesNoPinnedKnob) {
  bench_.config.recheck_after_windows = 0;
  bench_.StartLoop({kGood}, /*once=*/true);
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }));
  const size_t calls = bench_.node.calls().size();
  ASSERT_TRUE(bench_.loop->Pin("alpha", true, "operator:al").ok());

  bench_.Run(500);

  EXPECT_EQ(bench_.Value("alpha"), 80);
  EXPECT_EQ(bench_.node.calls().size(), calls);
  EXPECT_TRUE(bench_.Events("holdback").empty());
}

TEST_F(NodeLoopLimitsTest, ALimitStandsInEveryLease) {
  bench_.config.recheck_after_windows = 0;
  bench_.StartLoop({kGood}, /*once=*/true);
  bench_.Run(5);
  // Tighter than the usual wire, which is five times what the incumbent shows.
  const env::WindowMetrics metrics = bench_.loop->Status().latest->metrics;
  Goal goal;
  goal.limits.read_p99_us_max = 2 * metrics.read.p99_ns / 1000;
  goal.limits.write_p99_us_max = 2 * metrics.write.p99_ns / 1000;
  ASSERT_TRUE(bench_.loop->SetGoal(goal, "operator:al").ok());

  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Events("holdback").empty(); }));
  bench_.Run(2);

  size_t leases = 0;
  for (const auto& call : bench_.node.calls()) {
    if (call.verb != "apply") continue;
    ++leases;
    ASSERT_TRUE(call.terms.trips.read_p99_us_max.has_value());
    ASSERT_TRUE(call.terms.trips.write_p99_us_max.has_value());
    EXPECT_EQ(*call.terms.trips.read_p99_us_max, *goal.limits.read_p99_us_max);
    EXPECT_EQ(*call.terms.trips.write_p99_us_max, *goal.limits.write_p99_us_max);
  }
  EXPECT_GE(leases, 3U);  // the legs of the trial, and the holdback
}

// Goal: a new load asks for windows of the default, which breaks the limit; the node's wire ends
// that at once, and it is not tried again every few windows. Method: a load that changes after the
// keep.
TEST(NodeLoopGoalTest, ADefaultThatBreaksALimitIsNotForcedOnTheNodeAgainAndAgain) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.noise_cv = 0.01;
  model.responses[0] = {.best_unit = 0.8, .read_depth = 1.5, .write_depth = 1.5};
  model.steps = {{200, 1, 0.95, 65536}};
  LoopBench bench(model);
  bench.config.recheck_after_windows = 0;
  bench.StartLoop({kGood}, /*once=*/true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }, 180));
  bench.Run(2);
  Goal goal;
  goal.limits.read_p99_us_max = 1.2 * bench.loop->Status().latest->metrics.read.p99_ns / 1000;
  ASSERT_TRUE(bench.loop->SetGoal(goal, "operator:al").ok());
  const size_t before = bench.node.calls().size();

  bench.Run(500);

  size_t applied = 0;
  for (size_t i = before; i < bench.node.calls().size(); ++i) {
    if (bench.node.calls()[i].verb == "apply") ++applied;
  }
  EXPECT_GE(applied, 1U);
  EXPECT_LE(applied, 6U);
  EXPECT_EQ(bench.Value("alpha"), 80);
  EXPECT_TRUE(bench.NodeIsClean());
}

// Goal: a candidate that gains but breaks a hard limit is not kept. Method: a knob that makes reads
// much faster and writes slower, with a limit just above what writes show now.
TEST(NodeLoopGoalTest, AGainThatBreaksALimitIsRevertedAndTheHistorySaysWhy) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.noise_cv = 0.01;
  model.responses[0] = {.best_unit = 1, .read_depth = 1.5, .write_depth = -0.6};
  for (const bool limited : {false, true}) {
    SCOPED_TRACE(limited);
    LoopBench bench(model);
    bench.config.trip_wires.p99_floor_us = 1e9;  // what the node checks anyway stays out of the way
    bench.StartLoop({{"alpha", 100}}, /*once=*/true);
    bench.Run(15);
    const double write_p99_us = bench.loop->Status().latest->metrics.write.p99_ns / 1000;
    Goal goal(agents::GoalKind::kRead);
    if (limited) goal.limits.write_p99_us_max = 1.15 * write_p99_us;
    ASSERT_TRUE(bench.loop->SetGoal(goal, "operator:al").ok());

    ASSERT_TRUE(bench.RunUntil([&] {
      return !bench.Changes().empty() && bench.Changes().front().verdict != Verdict::kPending;
    }));

    const Change change = bench.Changes().front();
    EXPECT_EQ(change.verdict, limited ? Verdict::kRevert : Verdict::kKeep) << change.verdict_reason;
    EXPECT_EQ(bench.Value("alpha"), limited ? 30 : 100);
    EXPECT_EQ(change.verdict_reason.find("write_p99") != std::string::npos, limited)
        << change.verdict_reason;
    EXPECT_TRUE(bench.NodeIsClean());
  }
}

TEST(NodeLoopGoalTest, ATrustedSettingThatBreaksALimitIsTold) {
  LoopBench bench;
  bench.StartLoop({});
  Goal goal;
  goal.limits.read_p99_us_max = 1;
  ASSERT_TRUE(bench.loop->SetGoal(goal, "operator:al").ok());

  bench.Run(30);

  EXPECT_EQ(bench.Events("limit").size(), 1U);  // once, not at every window
  EXPECT_NE(bench.loop->Status().limits_broken.find("read p99 is"), std::string::npos);
  ASSERT_TRUE(bench.loop->SetGoal(agents::GoalKind::kBalanced, "operator:al").ok());
  bench.Run(3);
  EXPECT_EQ(bench.loop->Status().limits_broken, "");
}

TEST(NodeLoopGoalTest, WeightsOrLimitsAloneAreAnotherGoalAndANewJudgement) {
  LoopBench bench;
  bench.StartLoop({kGood});
  ASSERT_TRUE(bench.RunUntilState(TunerState::kScreening));
  Goal goal;
  ASSERT_TRUE(ReadWeights({{"read_p99", 0.5}, {"write_p99", 0.5}}, goal).empty());

  ASSERT_TRUE(bench.loop->SetGoal(goal, "operator:al").ok());
  bench.Run(1);

  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  ASSERT_EQ(bench.Events("goal").size(), 1U);
  EXPECT_NE(bench.Events("goal")[0].find("operator:al set the goal to custom (read_p99 50 %, "
                                         "write_p99 50 %); it was balanced"),
            std::string::npos);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
  EXPECT_EQ(bench.Changes(Verdict::kKeep).front().goal, "custom");
  bench.Kill();
  bench.StartLoop({});
  EXPECT_EQ(bench.loop->record().goal, goal);
}

TEST_F(NodeLoopLimitsTest, ARestartedSidecarKeepsToTheBudget) {
  bench_.config.envelope.trials_per_hour_max = 1;
  bench_.StartLoop({kSham});
  ASSERT_TRUE(bench_.RunUntil([&] { return bench_.Changes().size() == 1; }));
  bench_.Kill();

  bench_.StartLoop({kGood});
  bench_.Run(300);

  EXPECT_EQ(bench_.Changes().size(), 1U);
  EXPECT_EQ(bench_.loop->Status().why, "no trial now: the budget of 1 trials an hour is used up");
}

}  // namespace
}  // namespace ebb::engine
