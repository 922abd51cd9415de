#include "engine/guard/schedule.h"

#include <array>
#include <charconv>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.h"

namespace ebb::engine {
namespace {

constexpr int kDayMinutes = 24 * 60;
constexpr int kWeekMinutes = 7 * kDayMinutes;
constexpr std::array<std::string_view, 7> kDays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

absl::Status BadSpan(std::string_view text, const std::string& why) {
  return absl::InvalidArgumentError(
      fmt::format("'{}' is no span of hours: {}; write 22:00-06:00, sat,sun 00:00-24:00 or mon-fri "
                  "08:00-18:00",
                  text, why));
}

std::optional<int> ParseNumber(std::string_view text, int max) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.size() > 2 || value < 0 || value > max) {
    return std::nullopt;
  }
  return value;
}

// "06:30" as minutes of the day; 24:00 is the day's end.
std::optional<int> ParseTimeOfDay(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || text.size() != colon + 3) return std::nullopt;
  const auto hour = ParseNumber(text.substr(0, colon), 24);
  const auto minute = ParseNumber(text.substr(colon + 1), 59);
  if (!hour || !minute || (*hour == 24 && *minute > 0)) return std::nullopt;
  return *hour * 60 + *minute;
}

std::optional<int> DayOf(std::string_view word) {
  for (size_t day = 0; day < kDays.size(); ++day) {
    if (kDays[day] == word) return static_cast<int>(day);
  }
  return std::nullopt;
}

// One part of a list of days: "sat" or "mon-fri", which may pass Sunday.
absl::StatusOr<uint8_t> ParseDays(std::string_view text, std::string_view part) {
  const size_t dash = part.find('-');
  const std::string_view first = part.substr(0, dash);
  const std::string_view last = dash == part.npos ? first : part.substr(dash + 1);
  for (const std::string_view word : {first, last}) {
    if (DayOf(word)) continue;
    const std::string_view near = NearestWord(word, kDays);
    return BadSpan(text,
                   fmt::format("'{}' is no day{}", word,
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
  }
  uint8_t days = 0;
  for (int day = *DayOf(first);; day = (day + 1) % 7) {
    days = static_cast<uint8_t>(days | 1U << day);
    if (day == *DayOf(last)) return days;
  }
}

std::string ClockText(int minute_of_day) {
  return fmt::format("{:02}:{:02}", minute_of_day / 60, minute_of_day % 60);
}

std::string WhyOf(std::string_view what, const WeeklySpan& span) {
  return fmt::format("{} ({}) until {}", what, span.text,
                     ClockText((span.from_minute + span.minutes) % kDayMinutes));
}

}  // namespace

LocalTime SystemLocalTime(int64_t wall_ms) {
  const auto seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  return {local.tm_wday, local.tm_hour * 60 + local.tm_min};
}

bool WeeklySpan::Contains(const LocalTime& time) const {
  const int now = time.weekday * kDayMinutes + time.minute;
  for (int day = 0; day < 7; ++day) {
    if ((days >> day & 1) == 0) continue;
    const int begin = day * kDayMinutes + from_minute;
    if ((now - begin + kWeekMinutes) % kWeekMinutes < minutes) return true;
  }
  return false;
}

absl::StatusOr<WeeklySpan> ParseWeeklySpan(std::string_view text) {
  WeeklySpan span;
  span.text = text;
  std::string_view hours = text;
  if (const size_t blank = text.find(' '); blank != text.npos) {
    hours = text.substr(blank + 1);
    span.days = 0;
    std::string_view list = text.substr(0, blank);
    while (true) {
      const size_t comma = list.find(',');
      const absl::StatusOr<uint8_t> days = ParseDays(text, list.substr(0, comma));
      if (!days.ok()) return days.status();
      span.days = static_cast<uint8_t>(span.days | *days);
      if (comma == list.npos) break;
      list.remove_prefix(comma + 1);
    }
  }
  const size_t dash = hours.find('-');
  if (dash == hours.npos) return BadSpan(text, "it has no begin and end of hours");
  const auto from = ParseTimeOfDay(hours.substr(0, dash));
  const auto to = ParseTimeOfDay(hours.substr(dash + 1));
  if (!from || *from == kDayMinutes) {
    return BadSpan(text, fmt::format("'{}' is no time of day", hours.substr(0, dash)));
  }
  if (!to) return BadSpan(text, fmt::format("'{}' is no time of day", hours.substr(dash + 1)));
  if (*from == *to) return BadSpan(text, "it ends when it begins");
  span.from_minute = *from;
  span.minutes = (*to - *from + kDayMinutes) % kDayMinutes;
  if (span.minutes == 0) span.minutes = kDayMinutes;  // 00:00-24:00
  return span;
}

Rest RestAt(const ScheduleConfig& schedule, int64_t wall_ms) {
  if (schedule.quiet_hours.empty() && schedule.maintenance.empty()) return {};
  const LocalTime now = schedule.local_time(wall_ms);
  for (const WeeklySpan& span : schedule.maintenance) {
    if (span.Contains(now)) {
      return {Rest::Kind::kMaintenance, WhyOf("maintenance window", span)};
    }
  }
  for (const WeeklySpan& span : schedule.quiet_hours) {
    if (span.Contains(now)) return {Rest::Kind::kQuietHours, WhyOf("quiet hours", span)};
  }
  return {};
}

}  // namespace ebb::engine
