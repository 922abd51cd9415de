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
