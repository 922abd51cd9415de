#include "engine/guard/limit_watch.h"

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

env::Observation Window(double read_p99_us, uint64_t ops = 1000) {
  env::Observation observation;
  observation.metrics.seconds = 1;
  observation.metrics.read.ops = ops;
  observation.metrics.read.p50_ns = 1000;
  observation.metrics.read.p99_ns = read_p99_us * 1000;
  return observation;
}

std::vector<env::Observation> Windows(size_t count, double read_p99_us) {
  return std::vector<env::Observation>(count, Window(read_p99_us));
}

const GoalLimits kTwoMs{.read_p99_us_max = 2000, .write_p99_us_max = std::nullopt};

TEST(LimitWatchTest, ALimitTightensTheLeaseAndNeverLoosensIt) {
  env::TripConditions trips;
  trips.read_p99_us_max = 20'000;

  LimitWatch(kTwoMs, Windows(20, 1500)).Tighten(trips);

  EXPECT_EQ(trips.read_p99_us_max, 2000);
  EXPECT_FALSE(trips.write_p99_us_max.has_value());
  trips.read_p99_us_max = 1000;
  LimitWatch(kTwoMs, Windows(20, 500)).Tighten(trips);
  EXPECT_EQ(trips.read_p99_us_max, 1000);
}

TEST(LimitWatchTest, TwoWindowsInARowAboveItEndTheTrial) {
  LimitWatch watch(kTwoMs, Windows(20, 1500));

  EXPECT_EQ(watch.Note(Window(2400).metrics), "");
  EXPECT_EQ(watch.Note(Window(1900).metrics), "");
  EXPECT_EQ(watch.Note(Window(2400).metrics), "");
  EXPECT_EQ(watch.Note(Window(9000, kOpsPerKindMin - 1).metrics), "");  // says nothing
  EXPECT_EQ(watch.Note(Window(2500).metrics),
            "read p99 was 2.5 ms in the second window in a row above the limit, and the goal's "
            "limit is 2 ms");
}

TEST(LimitWatchTest, AKeepNeedsNineOfTenWindowsBelowIt) {
  LimitWatch watch(kTwoMs, Windows(20, 1500));
  watch.Note(Window(3000).metrics);
  for (int i = 0; i < 8; ++i) watch.Note(Window(1000).metrics);

  EXPECT_EQ(watch.KeepFault(),
            "read p99 was above the limit in 1 of 9 windows, at worst 3 ms, and the goal's limit "
            "is 2 ms");
  watch.Note(Window(1000).metrics);
  EXPECT_EQ(watch.KeepFault(), "");
}

TEST(LimitWatchTest, WhereTheIncumbentBreaksItThingsMayOnlyGetBetter) {
  std::vector<env::Observation> recent = Windows(10, 4000);
  recent.push_back(Window(5000));
  env::Observation invalid = Window(90'000);
  invalid.valid = false;
  recent.push_back(invalid);
  LimitWatch watch(kTwoMs, recent);
  env::TripConditions trips;

  watch.Tighten(trips);

  EXPECT_EQ(trips.read_p99_us_max, 5000);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(watch.Note(Window(3000).metrics), "");
  EXPECT_EQ(watch.KeepFault(), "");
  watch.Note(Window(5100).metrics);
  EXPECT_NE(watch.Note(Window(5100).metrics).find("(5 ms while the incumbent itself breaks it)"),
            std::string::npos);
}

TEST(LimitWatchTest, WithoutLimitsItAsksNothing) {
  LimitWatch watch({}, Windows(3, 4000));
  env::TripConditions trips;

  watch.Tighten(trips);

  EXPECT_FALSE(trips.read_p99_us_max.has_value());
  EXPECT_EQ(watch.Note(Window(1e9).metrics), "");
  EXPECT_EQ(watch.KeepFault(), "");
}

TEST(LimitWatchTest, BrokenLimitsAreNamedTogether) {
  env::Observation both = Window(2400);
  both.metrics.write = both.metrics.read;
  const GoalLimits limits{.read_p99_us_max = 2000, .write_p99_us_max = 1000};

  EXPECT_EQ(BrokenLimits(limits, both.metrics),
            "read p99 is 2.4 ms, at most 2 ms; write p99 is 2.4 ms, at most 1 ms");
  EXPECT_EQ(BrokenLimits(kTwoMs, Window(1900).metrics), "");
}

}  // namespace
}  // namespace ebb::engine
