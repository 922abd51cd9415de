#include "engine/goal/goal.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ebb::engine {
namespace {

constexpr std::array<std::string_view, kComponentCount> kWords = {
    "read_p50", "read_p99", "read_throughput", "write_p50", "write_p99", "write_throughput"};
// A window's p99 rests on few requests, so it weighs less than the median and the rate.
constexpr std::array<double, kComponentsPerKind> kShareInKind = {0.40, 0.25, 0.35};
constexpr double kGoalKindShare = 0.9;

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

ComponentWeights WeightsFor(agents::GoalKind goal, const env::WindowMetrics& metrics) {
  ComponentWeights weights{};
  const bool has_read = HasTraffic(metrics.read);
  const bool has_write = HasTraffic(metrics.write);
  if (!has_read && !has_write) return weights;
  double read_share = ReadShare(goal, metrics);
  if (!has_write) read_share = 1;
  if (!has_read) read_share = 0;
  for (size_t i = 0; i < kComponentsPerKind; ++i) {
    weights[i] = read_share * kShareInKind[i];
    weights[kComponentsPerKind + i] = (1 - read_share) * kShareInKind[i];
  }
  return weights;
}

double LogIndexAgainst(agents::GoalKind goal, const env::WindowMetrics& measured,
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
