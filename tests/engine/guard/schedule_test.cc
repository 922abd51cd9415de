#include "engine/guard/schedule.h"

#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

constexpr int kSun = 0, kMon = 1, kFri = 5, kSat = 6;

LocalTime At(int weekday, int hour, int minute = 0) { return {weekday, hour * 60 + minute}; }

bool Contains(std::string_view text, const LocalTime& time) {
  const auto span = ParseWeeklySpan(text);
  EXPECT_TRUE(span.ok()) << span.status();
  return span.ok() && span->Contains(time);
}

TEST(WeeklySpanTest, BeginsAtItsFirstMinuteAndEndsBeforeItsLast) {
  EXPECT_FALSE(Contains("08:00-18:30", At(kMon, 7, 59)));
  EXPECT_TRUE(Contains("08:00-18:30", At(kMon, 8)));
  EXPECT_TRUE(Contains("08:00-18:30", At(kSat, 18, 29)));
  EXPECT_FALSE(Contains("08:00-18:30", At(kMon, 18, 30)));
}

TEST(WeeklySpanTest, PassesMidnightAndTheWeeksEnd) {
  EXPECT_TRUE(Contains("22:00-06:00", At(kMon, 23)));
  EXPECT_TRUE(Contains("22:00-06:00", At(kMon, 5, 59)));
  EXPECT_FALSE(Contains("22:00-06:00", At(kMon, 6)));
  // The night from Saturday belongs to Saturday.
  EXPECT_TRUE(Contains("sat 22:00-06:00", At(kSun, 3)));
  EXPECT_FALSE(Contains("sat 22:00-06:00", At(kSat, 3)));
  EXPECT_FALSE(Contains("sat 22:00-06:00", At(kMon, 3)));
}

TEST(WeeklySpanTest, DaysAreListsAndRanges) {
  EXPECT_TRUE(Contains("sat,sun 00:00-24:00", At(kSun, 23, 59)));
  EXPECT_FALSE(Contains("sat,sun 00:00-24:00", At(kMon, 0)));
  EXPECT_TRUE(Contains("mon-fri 08:00-18:00", At(kFri, 9)));
  EXPECT_FALSE(Contains("mon-fri 08:00-18:00", At(kSat, 9)));
  EXPECT_TRUE(Contains("fri-mon 08:00-18:00", At(kSun, 9)));
  EXPECT_TRUE(Contains("mon,fri-sat 00:00-01:00", At(kSat, 0)));
}

TEST(WeeklySpanTest, SaysWhatIsWrongAndWhatWouldBeRight) {
  for (const auto& [text, why] : {std::pair{"22-06", "'22' is no time of day"},
                                  {"", "no begin and end"},
                                  {"sunn 01:00-02:00", "did you mean 'sun'?"},
                                  {"sat, 01:00-02:00", "'' is no day"},
                                  {"01:00-01:00", "ends when it begins"},
                                  {"24:00-01:00", "'24:00' is no time of day"},
                                  {"01:00-24:01", "'24:01' is no time of day"},
                                  {"01:60-02:00", "'01:60' is no time of day"},
                                  {"1:00-2:00 ", "is no day"}}) {
    const absl::Status status = ParseWeeklySpan(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
    EXPECT_NE(status.message().find("write 22:00-06:00"), std::string::npos) << status;
  }
}

TEST(ScheduleTest, MaintenanceComesBeforeQuietHours) {
  ScheduleConfig schedule;
  schedule.quiet_hours = {*ParseWeeklySpan("22:00-06:00")};
  schedule.maintenance = {*ParseWeeklySpan("sun 02:00-04:00")};
  LocalTime now;
  schedule.local_time = [&](int64_t) { return now; };

  now = At(kSun, 1, 59);
  EXPECT_EQ(RestAt(schedule, 0),
            (Rest{Rest::Kind::kQuietHours, "quiet hours (22:00-06:00) until 06:00"}));
  now = At(kSun, 2);
  EXPECT_EQ(RestAt(schedule, 0),
            (Rest{Rest::Kind::kMaintenance, "maintenance window (sun 02:00-04:00) until 04:00"}));
  now = At(kSun, 12);
  EXPECT_EQ(RestAt(schedule, 0), Rest{});
}

// Goal: "local" is the machine's zone with its daylight saving. Method: two instants in Berlin.
TEST(ScheduleTest, LocalTimeFollowsTheZone) {
  setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
  tzset();

  const LocalTime winter = SystemLocalTime(1'700'000'000'000);  // Tuesday 2023-11-14 22:13:20 UTC
  const LocalTime summer = SystemLocalTime(1'690'000'000'000);  // Saturday 2023-07-22 04:26:40 UTC

  EXPECT_EQ(winter.weekday, 2);
  EXPECT_EQ(winter.minute, 23 * 60 + 13);
  EXPECT_EQ(summer.weekday, kSat);
  EXPECT_EQ(summer.minute, 6 * 60 + 26);
  unsetenv("TZ");
  tzset();
}

}  // namespace
}  // namespace ebb::engine
