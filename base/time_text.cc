#include "base/time_text.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"

namespace ebb {
namespace {

constexpr int64_t kMsPerDay = 86'400'000;

struct Date {
  int64_t year;
  unsigned month;
  unsigned day;
};

// Days since 1970-01-01 of a Gregorian date, and back (Hinnant, "chrono-compatible low-level date
// algorithms"): a year begins in March, so that the leap day is its last.
int64_t DaysFromDate(const Date& date) {
  const int64_t year = date.month <= 2 ? date.year - 1 : date.year;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t month = (date.month + 9) % 12;
  const int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
         719'468;
}

Date DateFromDays(int64_t days) {
  const int64_t z = days + 719'468;
  const int64_t era = (z >= 0 ? z : z - 146'096) / 146'097;
  const int64_t day_of_era = z - era * 146'097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month = (5 * day_of_year + 2) / 153;
  const auto day = static_cast<unsigned>(day_of_year - (153 * month + 2) / 5 + 1);
  const auto civil_month = static_cast<unsigned>(month < 10 ? month + 3 : month - 9);
  return {year_of_era + era * 400 + (civil_month <= 2 ? 1 : 0), civil_month, day};
}

// Reads fixed-width fields from the front of a text; once one fails, all later ones do.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  bool ok() const { return ok_; }
  bool at_end() const { return text_.empty(); }
  char Peek() const { return text_.empty() ? '\0' : text_.front(); }

  int64_t Digits(size_t width) {
    int64_t value = 0;
    if (text_.size() < width) return Fail();
    for (size_t i = 0; i < width; ++i) {
      if (text_[i] < '0' || text_[i] > '9') return Fail();
      value = value * 10 + (text_[i] - '0');
    }
    text_.remove_prefix(width);
    return value;
  }
  void Expect(std::string_view one_of) {
    if (text_.empty() || one_of.find(text_.front()) == std::string_view::npos) {
      Fail();
      return;
    }
    text_.remove_prefix(1);
  }
  // ".123456789" as milliseconds, cut; 0 when there is no fraction.
  int64_t FractionMs() {
    if (Peek() != '.') return 0;
    text_.remove_prefix(1);
    int64_t ms = 0;
    size_t digits = 0;
    for (; !text_.empty() && Peek() >= '0' && Peek() <= '9'; ++digits, text_.remove_prefix(1)) {
      if (digits < 3) ms = ms * 10 + (Peek() - '0');
    }
    if (digits == 0) return Fail();
    for (; digits < 3; ++digits) ms *= 10;
    return ms;
  }

 private:
  int64_t Fail() {
    ok_ = false;
    return 0;
  }
  std::string_view text_;
  bool ok_ = true;
};

}  // namespace

std::string FormatRfc3339(int64_t wall_ms) {
  const int64_t first_ms = DaysFromDate({0, 1, 1}) * kMsPerDay;
  const int64_t last_ms = DaysFromDate({10'000, 1, 1}) * kMsPerDay - 1;
  const int64_t ms = std::clamp(wall_ms, first_ms, last_ms);
  const int64_t days = (ms >= 0 ? ms : ms - (kMsPerDay - 1)) / kMsPerDay;
  const int64_t rest = ms - days * kMsPerDay;
  const Date date = DateFromDays(days);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", date.year, date.month, date.day,
                     rest / 3'600'000, rest / 60'000 % 60, rest / 1'000 % 60, rest % 1'000);
}

absl::StatusOr<int64_t> ParseTimeMs(std::string_view text) {
  int64_t epoch_ms = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, epoch_ms);
  if (error == std::errc() && stop == end) return epoch_ms;

  Cursor cursor(text);
  Date date{};
  date.year = cursor.Digits(4);
  cursor.Expect("-");
  date.month = static_cast<unsigned>(cursor.Digits(2));
  cursor.Expect("-");
  date.day = static_cast<unsigned>(cursor.Digits(2));
  cursor.Expect("Tt ");
  const int64_t hour = cursor.Digits(2);
  cursor.Expect(":");
  const int64_t minute = cursor.Digits(2);
  cursor.Expect(":");
  const int64_t second = cursor.Digits(2);
  int64_t ms = cursor.FractionMs();
  const char zone = cursor.Peek();
  cursor.Expect("Zz+-");
  int64_t offset_minutes = 0;
  if (cursor.ok() && (zone == '+' || zone == '-')) {
    const int64_t zone_hour = cursor.Digits(2);
    cursor.Expect(":");
    const int64_t zone_minute = cursor.Digits(2);
    offset_minutes = (zone == '-' ? -1 : 1) * (zone_hour * 60 + zone_minute);
  }

  const Date real = DateFromDays(DaysFromDate(date));
  const bool exists = date.month >= 1 && date.month <= 12 && date.day >= 1 &&
                      real.month == date.month && real.day == date.day && hour < 24 &&
                      minute < 60 && second < 60;
  if (!cursor.ok() || !cursor.at_end() || !exists) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not a time (write RFC 3339, such as 2026-07-29T18:04:05Z, or Unix "
                    "milliseconds)",
                    text));
  }
  ms += ((hour * 60 + minute - offset_minutes) * 60 + second) * 1'000;
  return DaysFromDate(date) * kMsPerDay + ms;
}

}  // namespace ebb
