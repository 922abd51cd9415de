#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "fmt/format.h"

namespace ebb {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

struct NumberAndUnit {
  double number = 0;
  std::string unit;  // lower case
};

absl::StatusOr<NumberAndUnit> Split(std::string_view text, std::string_view what) {
  NumberAndUnit result;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.number);
  if (error != std::errc() || !std::isfinite(result.number) || result.number < 0) {
    return absl::InvalidArgumentError(fmt::format("'{}' is not a {}", text, what));
  }
  for (const char* p = end; p != text.data() + text.size(); ++p) {
    if (*p != ' ') result.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*p)));
  }
  return result;
}

absl::StatusOr<uint64_t> Scale(const NumberAndUnit& value, double factor, std::string_view text) {
  const double scaled = value.number * factor;
  if (scaled >= 9.0e18) return absl::InvalidArgumentError(fmt::format("'{}' is too large", text));
  return static_cast<uint64_t>(std::llround(scaled));
}

std::string Short(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.3g}", value);
  return fmt::format("{:.3g}", value);
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<Unit, 5> kUnits = {
      {{"TiB", 1024.0 * kGiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}, {"B", 1}}};
  for (const Unit& unit : kUnits) {
    if (static_cast<double>(bytes) >= unit.factor) {
      return fmt::format("{} {}", Short(static_cast<double>(bytes) / unit.factor), unit.name);
    }
  }
  return "0 B";
}

std::string FormatDurationNs(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < kNsPerUs) return fmt::format("{} ns", ns);
  if (ns < kNsPerMs) return fmt::format("{} us", Short(value / kNsPerUs));
  if (ns < kNsPerS) return fmt::format("{} ms", Short(value / kNsPerMs));
  if (ns < 60 * kNsPerS) return fmt::format("{} s", Short(value / kNsPerS));
  const uint64_t seconds = ns / kNsPerS;
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  static constexpr std::array<Unit, 15> kUnits = {{{"", 1},
                                                   {"b", 1},
                                                   {"k", kKiB},
                                                   {"kb", kKiB},
                                                   {"kib", kKiB},
                                                   {"m", kMiB},
                                                   {"mb", kMiB},
                                                   {"mib", kMiB},
                                                   {"g", kGiB},
                                                   {"gb", kGiB},
                                                   {"gib", kGiB},
                                                   {"t", 1024.0 * kGiB},
                                                   {"tb", 1024.0 * kGiB},
                                                   {"tib", 1024.0 * kGiB},
                                                   {"bytes", 1}}};
  auto value = Split(text, "size (write e.g. 4096, 64k, 1.5GiB)");
  if (!value.ok()) return value.status();
  for (const Unit& unit : kUnits) {
    if (value->unit == unit.name) return Scale(*value, unit.factor, text);
  }
  return absl::InvalidArgumentError(fmt::format(
      "'{}' has the unknown unit '{}' (write e.g. 4096, 64k, 1.5GiB)", text, value->unit));
}

absl::StatusOr<uint64_t> ParseDurationNs(std::string_view text) {
  static constexpr std::array<Unit, 8> kUnits = {{{"", kNsPerS},
                                                  {"us", kNsPerUs},
                                                  {"ms", kNsPerMs},
                                                  {"s", kNsPerS},
                                                  {"m", 60.0 * kNsPerS},
                                                  {"min", 60.0 * kNsPerS},
                                                  {"h", 3600.0 * kNsPerS},
                                                  {"d", 86400.0 * kNsPerS}}};
  auto value = Split(text, "duration (write e.g. 500ms, 20s, 5min, 1h)");
  if (!value.ok()) return value.status();
  for (const Unit& unit : kUnits) {
    if (value->unit == unit.name) return Scale(*value, unit.factor, text);
  }
  return absl::InvalidArgumentError(fmt::format(
      "'{}' has the unknown unit '{}' (write e.g. 500ms, 20s, 5min, 1h)", text, value->unit));
}

}  // namespace ebb
