#include "engine/uplift/holdback_schedule.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

// The first windows of the default's turns in so many windows.
std::vector<int64_t> Turns(HoldbackSchedule& schedule, const HoldbackPlan& plan, int64_t windows) {
  std::vector<int64_t> turns;
  for (int64_t window = 0; window < windows; ++window) {
    if (!schedule.Due(window, plan)) continue;
    turns.push_back(window);
    window += plan.cost_windows();
    schedule.NoteEnd(window, plan);
  }
  return turns;
}

TEST(HoldbackScheduleTest, TheDefaultGetsItsShareOfTheWindows) {
  for (const double share : {0.02, 0.05, 0.1}) {
    for (const uint32_t settle : {1U, 20U}) {
      HoldbackSchedule schedule(share, 7);
      const HoldbackPlan plan = PlanHoldback(10, settle);
      constexpr int64_t kWindows = 400'000;

      const auto turns = static_cast<double>(Turns(schedule, plan, kWindows).size());

      EXPECT_NEAR(turns * plan.cost_windows() / kWindows, share, 0.06 * share)
          << "settle " << settle;
    }
  }
}

TEST(HoldbackScheduleTest, TurnsKeepNoRhythm) {
  HoldbackSchedule schedule(0.05, 7);

  const std::vector<int64_t> turns = Turns(schedule, PlanHoldback(10, 1), 20'000);

  std::set<int64_t> gaps;
  for (size_t i = 1; i < turns.size(); ++i) gaps.insert(turns[i] - turns[i - 1]);
  EXPECT_GT(gaps.size(), turns.size() / 3);
  EXPECT_GT(*gaps.rbegin(), 3 * *gaps.begin() / 2);
}

TEST(HoldbackScheduleTest, ASlowKnobMakesTurnsLongerAndRarer) {
  const HoldbackPlan quick = PlanHoldback(10, 1);
  const HoldbackPlan slow = PlanHoldback(10, 20);
  HoldbackSchedule quick_schedule(0.05, 7);
  HoldbackSchedule slow_schedule(0.05, 7);

  EXPECT_FALSE(quick.slow);
  EXPECT_EQ(quick.default_windows, 10U);
  EXPECT_TRUE(slow.slow);
  EXPECT_EQ(slow.default_windows, 40U);
  EXPECT_EQ(slow.side_windows, 40U);
  EXPECT_LT(4 * Turns(slow_schedule, slow, 50'000).size(),
            Turns(quick_schedule, quick, 50'000).size());
}

TEST(HoldbackScheduleTest, NoShareNoTurnAndAStopForgetsTheNextOne) {
  const HoldbackPlan plan = PlanHoldback(10, 1);
  HoldbackSchedule none(0, 7);
  EXPECT_TRUE(Turns(none, plan, 10'000).empty());
  HoldbackSchedule schedule(0.05, 7);
  ASSERT_FALSE(schedule.Due(0, plan));
  ASSERT_TRUE(schedule.Due(5000, plan));

  schedule.Stop();

  EXPECT_FALSE(schedule.Due(5000, plan));  // the tuned setting runs first
}

}  // namespace
}  // namespace ebb::engine
