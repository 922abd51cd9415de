#include "engine/guard/limit_watch.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/units.h"

namespace ebb::engine {
namespace {

// Of the windows; more than this breaks a limit. A p99 over a second is noisy.
constexpr double kOverShareMax = 0.1;
constexpr uint32_t kOverInRowMax = 2;

// Nothing where too few operations were seen for a percentile to mean something.
std::optional<double> P99Us(const env::OpWindow& window) {
  if (window.ops < kOpsPerKindMin) return std::nullopt;
  return window.p99_ns / kNsPerUs;
}

std::string TimeText(double us) { return FormatDurationNs(static_cast<uint64_t>(us * kNsPerUs)); }

void Lower(std::optional<double>& condition, double limit) {
  condition = condition ? std::min(*condition, limit) : limit;
}

}  // namespace

LimitWatch::LimitWatch(const GoalLimits& limits, const std::vector<env::Observation>& recent) {
  for (const GoalLimit& limit : kGoalLimits) {
    if (const auto& us_max = limits.*limit.us_max) Add(limit, *us_max, recent);
  }
}

void LimitWatch::Add(const GoalLimit& limit, double limit_us,
                     const std::vector<env::Observation>& recent) {
  Ceiling ceiling{&limit, limit_us, limit_us};
  size_t windows = 0;
  size_t over = 0;
  double worst_us = 0;
  for (const env::Observation& observation : recent) {
    const auto p99_us = P99Us(observation.metrics.*limit.kind);
    if (!observation.valid || !p99_us) continue;
    ++windows;
    if (*p99_us > limit_us) ++over;
    worst_us = std::max(worst_us, *p99_us);
  }
  if (static_cast<double>(over) > kOverShareMax * static_cast<double>(windows)) {
    ceiling.allowed_us = worst_us;
  }
  ceilings_.push_back(ceiling);
}

void LimitWatch::Tighten(env::TripConditions& trips) const {
  for (const Ceiling& ceiling : ceilings_) {
    const bool reads = ceiling.limit->kind == &env::WindowMetrics::read;
    Lower(reads ? trips.read_p99_us_max : trips.write_p99_us_max, ceiling.allowed_us);
  }
}

std::string LimitWatch::Sentence(const Ceiling& ceiling, const std::string& what) {
  std::string text = fmt::format("{} {}, and the goal's limit is {}", ceiling.limit->words, what,
                                 TimeText(ceiling.limit_us));
  if (ceiling.allowed_us > ceiling.limit_us) {
    text += fmt::format(" ({} while the incumbent itself breaks it)", TimeText(ceiling.allowed_us));
  }
  return text;
}

std::string LimitWatch::Note(const env::WindowMetrics& metrics) {
  std::string broken;
  for (Ceiling& ceiling : ceilings_) {
    const auto p99_us = P99Us(metrics.*ceiling.limit->kind);
    if (!p99_us) continue;
    ++ceiling.windows;
    ceiling.worst_us = std::max(ceiling.worst_us, *p99_us);
    if (*p99_us <= ceiling.allowed_us) {
      ceiling.over_in_row = 0;
      continue;
    }
    ++ceiling.over;
    if (++ceiling.over_in_row < kOverInRowMax || !broken.empty()) continue;
    broken = Sentence(ceiling, fmt::format("was {} in the second window in a row above the limit",
                                           TimeText(*p99_us)));
  }
  return broken;
}

std::string LimitWatch::KeepFault() const {
  for (const Ceiling& ceiling : ceilings_) {
    if (static_cast<double>(ceiling.over) <= kOverShareMax * static_cast<double>(ceiling.windows)) {
      continue;
    }
    return Sentence(
        ceiling, fmt::format("was above the limit in {} of {} windows, at worst {}", ceiling.over,
                             ceiling.windows, TimeText(ceiling.worst_us)));
  }
  return {};
}

std::string BrokenLimits(const GoalLimits& limits, const env::WindowMetrics& metrics) {
  std::string text;
  for (const GoalLimit& limit : kGoalLimits) {
    const auto& us_max = limits.*limit.us_max;
    const auto p99_us = P99Us(metrics.*limit.kind);
    if (!us_max || !p99_us || *p99_us <= *us_max) continue;
    text += fmt::format("{}{} is {}, at most {}", text.empty() ? "" : "; ", limit.words,
                        TimeText(*p99_us), TimeText(*us_max));
  }
  return text;
}

}  // namespace ebb::engine
