#include "engine/goal/goal.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/check.h"
#include "base/nearest.h"
#include "base/units.h"

namespace ebb::engine {
namespace {

constexpr std::array<std::string_view, kComponentCount> kWords = {
    "read_p50", "read_p99", "read_throughput", "write_p50", "write_p99", "write_throughput"};
// A window's p99 rests on few requests, so it weighs less than the median and the rate.
constexpr std::array<double, kComponentsPerKind> kShareInKind = {0.40, 0.25, 0.35};
constexpr double kGoalKindShare = 0.9;
constexpr std::array<std::string_view, 3> kGoalNames = {"read", "write", "balanced"};
constexpr double kWeightSumTolerance = 0.001;
// From here on a goal of an operator's own counts as one of reads or of writes for the agents.
constexpr double kOneSided = 0.7;
constexpr double kLimitUsMin = 1;
constexpr double kLimitUsMax = 60e6;

bool HasTraffic(const env::OpWindow& window) {
  return window.ops >= kOpsPerKindMin && window.p50_ns > 0 && window.p99_ns > 0;
}

double ReadShare(agents::GoalKind goal, const env::WindowMetrics& metrics) {
  switch (goal) {
    case agents::GoalKind::kRead:
      return kGoalKindShare;
    case agents::GoalKind::kWrite:
      return 1 - kGoalKindShare;
    case agents::GoalKind::kBalanced:
      break;
  }
  const double reads = static_cast<double>(metrics.read.ops);
  const double writes = static_cast<double>(metrics.write.ops);
  return reads + writes > 0 ? reads / (reads + writes) : 0.5;
}

ComponentWeights CustomWeights(ComponentWeights weights, bool has_read, bool has_write) {
  double sum = 0;
  for (size_t k = 0; k < kComponentCount; ++k) {
    if (!(k < kComponentsPerKind ? has_read : has_write)) weights[k] = 0;
    sum += weights[k];
  }
  if (sum <= 0) return {};
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::string UnknownName(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view near = NearestWord(name, known);
  return fmt::format("is unknown; known are {}{}", fmt::join(known, ", "),
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

void MeasureKind(const env::OpWindow& window, double seconds, size_t first, ComponentLogs& logs) {
  logs.value[first] = std::log(window.p50_ns);
  logs.value[first + 1] = std::log(window.p99_ns);
  logs.value[first + 2] = std::log(static_cast<double>(window.ops) / seconds);
}

}  // namespace

std::string_view ComponentWord(Component component) {
  const auto position = static_cast<size_t>(component);
  EBB_CHECK(position < kComponentCount);
  return kWords[position];
}

double ComponentSign(size_t component) {
  return component % kComponentsPerKind == kComponentsPerKind - 1 ? 1.0 : -1.0;
}

ComponentLogs MeasureComponents(const env::WindowMetrics& metrics) {
  ComponentLogs logs;
  if (!(metrics.seconds > 0)) return logs;
  logs.has_read = HasTraffic(metrics.read);
  logs.has_write = HasTraffic(metrics.write);
  if (logs.has_read) MeasureKind(metrics.read, metrics.seconds, 0, logs);
  if (logs.has_write) MeasureKind(metrics.write, metrics.seconds, kComponentsPerKind, logs);
  return logs;
}

std::string_view GoalName(const Goal& goal) {
  return goal.weights ? "custom" : kGoalNames[static_cast<size_t>(goal.kind)];
}

std::string GoalText(const Goal& goal) {
  std::string text(GoalName(goal));
  if (goal.weights) {
    std::vector<std::string> parts;
    for (const auto& [name, weight] : WeightsByName(goal)) {
      parts.push_back(fmt::format("{} {:.3g} %", name, 100 * weight));
    }
    text += fmt::format(" ({})", fmt::join(parts, ", "));
  }
  for (const GoalLimit& limit : kGoalLimits) {
    if (const auto& us_max = goal.limits.*limit.us_max) {
      text += fmt::format(", {} at most {}", limit.words,
                          FormatDurationNs(static_cast<uint64_t>(*us_max * kNsPerUs)));
    }
  }
  return text;
}

std::vector<GoalFault> ReadWeights(const std::map<std::string, double>& weights, Goal& goal) {
  std::vector<GoalFault> faults;
  ComponentWeights read{};
  double sum = 0;
  for (const auto& [name, weight] : weights) {
    const auto known = std::find(kWords.begin(), kWords.end(), name);
    if (known == kWords.end()) {
      faults.push_back({name, UnknownName(name, kWords)});
    } else if (!(weight >= 0 && weight <= 1)) {
      faults.push_back({name, fmt::format("must be from 0 to 1, not {:.6g}", weight)});
    } else {
      read[static_cast<size_t>(known - kWords.begin())] = weight;
      sum += weight;
    }
  }
  if (faults.empty() && std::abs(sum - 1) > kWeightSumTolerance) {
    faults.push_back({"", fmt::format("must sum to 1, not {:.6g}", sum)});
  }
  if (!faults.empty()) return faults;
  double reads = 0;
  for (size_t k = 0; k < kComponentsPerKind; ++k) reads += read[k] / sum;
  for (double& weight : read) weight /= sum;
  goal.weights = read;
  goal.kind = reads >= kOneSided       ? agents::GoalKind::kRead
              : 1 - reads >= kOneSided ? agents::GoalKind::kWrite
                                       : agents::GoalKind::kBalanced;
  return faults;
}

std::vector<GoalFault> ReadLimits(const std::map<std::string, double>& limits_us, Goal& goal) {
  std::vector<GoalFault> faults;
  GoalLimits limits;
  for (const auto& [name, limit_us] : limits_us) {
    const auto known =
        std::find_if(kGoalLimits.begin(), kGoalLimits.end(),
                     [&name = name](const GoalLimit& limit) { return limit.name == name; });
    if (known == kGoalLimits.end()) {
      std::vector<std::string_view> names;
      for (const GoalLimit& limit : kGoalLimits) names.push_back(limit.name);
      faults.push_back({name, UnknownName(name, names)});
    } else if (!(limit_us >= kLimitUsMin && limit_us <= kLimitUsMax)) {
      faults.push_back({name, fmt::format("must be from 1 us to 1 min, not {:.6g} us", limit_us)});
    } else {
      limits.*known->us_max = limit_us;
    }
  }
  if (faults.empty()) goal.limits = limits;
  return faults;
}

std::map<std::string, double> WeightsByName(const Goal& goal) {
  std::map<std::string, double> named;
  if (!goal.weights) return named;
  for (size_t k = 0; k < kComponentCount; ++k) {
    if ((*goal.weights)[k] > 0) named[std::string(kWords[k])] = (*goal.weights)[k];
  }
  return named;
}

std::map<std::string, double> LimitsByName(const Goal& goal) {
  std::map<std::string, double> named;
  for (const GoalLimit& limit : kGoalLimits) {
    if (const auto& us_max = goal.limits.*limit.us_max) named[std::string(limit.name)] = *us_max;
  }
  return named;
}

ComponentWeights WeightsFor(const Goal& goal, const env::WindowMetrics& metrics) {
  ComponentWeights weights{};
  const bool has_read = HasTraffic(metrics.read);
  const bool has_write = HasTraffic(metrics.write);
  if (!has_read && !has_write) return weights;
  if (goal.weights) return CustomWeights(*goal.weights, has_read, has_write);
  double read_share = ReadShare(goal.kind, metrics);
  if (!has_write) read_share = 1;
  if (!has_read) read_share = 0;
  for (size_t i = 0; i < kComponentsPerKind; ++i) {
    weights[i] = read_share * kShareInKind[i];
    weights[kComponentsPerKind + i] = (1 - read_share) * kShareInKind[i];
  }
  return weights;
}

double LogIndexAgainst(const Goal& goal, const env::WindowMetrics& measured,
                       const env::WindowMetrics& base) {
  const ComponentLogs now = MeasureComponents(measured);
  const ComponentLogs then = MeasureComponents(base);
  const ComponentWeights weights = WeightsFor(goal, measured);
  double sum = 0;
  double weight = 0;
  for (size_t k = 0; k < kComponentCount; ++k) {
    if (weights[k] == 0 || !now.has(k) || !then.has(k)) continue;
    sum += ComponentSign(k) * weights[k] * (now.value[k] - then.value[k]);
    weight += weights[k];
  }
  return weight == 0 ? 0 : sum / weight;
}

}  // namespace ebb::engine
