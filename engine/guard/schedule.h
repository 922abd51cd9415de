// Schedule: the hours in which the tuner keeps its hands off, in the node's local time.
//
// In quiet hours nothing new is proposed or tried; what runs may end. In a maintenance window the
// node belongs to people: it runs its trusted setting and nothing else. Local time comes from a
// function, so that tests need no time zone. Spans repeat weekly and may pass midnight.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ebb::engine {

struct LocalTime {
  int weekday = 0;  // 0 = Sunday
  int minute = 0;   // of the day
};
using LocalTimeOf = std::function<LocalTime(int64_t wall_ms)>;
// By the machine's time zone (TZ, /etc/localtime), daylight saving included.
LocalTime SystemLocalTime(int64_t wall_ms);

struct WeeklySpan {
  uint8_t days = 0x7f;  // bit 0 = Sunday: the days on which it begins
  int from_minute = 0;
  int minutes = 0;   // how long it lasts, at most a day
  std::string text;  // as it was written

  bool Contains(const LocalTime& time) const;
};

// "22:00-06:00", "sat,sun 00:00-24:00", "mon-fri 08:00-18:30"; an end that is not after the begin
// is on the next day. InvalidArgument says what is wrong and what would be right.
absl::StatusOr<WeeklySpan> ParseWeeklySpan(std::string_view text);

struct ScheduleConfig {
  std::vector<WeeklySpan> quiet_hours;
  std::vector<WeeklySpan> maintenance;
  LocalTimeOf local_time = SystemLocalTime;
};

struct Rest {
  enum class Kind : uint8_t { kNone, kQuietHours, kMaintenance };
  Kind kind = Kind::kNone;
  std::string why;  // "quiet hours (22:00-06:00) until 06:00"; empty for kNone
  bool operator==(const Rest&) const = default;
};

// Maintenance comes before quiet hours where both apply.
Rest RestAt(const ScheduleConfig& schedule, int64_t wall_ms);

}  // namespace ebb::engine
