// Goal: which parts of a window's measurements count and how much, and what must not be exceeded.
//
// Read, write and balanced, or weights of an operator's own. Hard limits stand beside the weights:
// they are no part of the index; the guard keeps nothing that breaks one. Pure functions over one
// window; nothing here knows the baseline or the guard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/agent.h"
#include "env/observation.h"

namespace ebb::engine {

// What the performance index is made of, for reads and then for writes.
enum class Component : uint8_t {
  kReadP50,
  kReadP99,
  kReadThroughput,
  kWriteP50,
  kWriteP99,
  kWriteThroughput
};
inline constexpr size_t kComponentCount = 6;
inline constexpr size_t kComponentsPerKind = 3;

std::string_view ComponentWord(Component component);
// +1 where more is better (throughput), -1 for latencies.
double ComponentSign(size_t component);

// A kind with fewer operations in a window than this has no meaningful percentiles and drops out.
inline constexpr uint64_t kOpsPerKindMin = 10;

// Natural logarithms of the components (latency in ns, throughput in operations per second).
struct ComponentLogs {
  std::array<double, kComponentCount> value{};
  bool has_read = false;   // the first kComponentsPerKind values mean something
  bool has_write = false;  // the last ones do
  bool has(size_t component) const { return component < kComponentsPerKind ? has_read : has_write; }
};
ComponentLogs MeasureComponents(const env::WindowMetrics& metrics);

using ComponentWeights = std::array<double, kComponentCount>;

// Highest 99th percentiles that a tuned setting may show; none: no limit.
struct GoalLimits {
  std::optional<double> read_p99_us_max;
  std::optional<double> write_p99_us_max;
  bool any() const { return read_p99_us_max || write_p99_us_max; }
  bool operator==(const GoalLimits&) const = default;
};

// One of the limits that there are.
struct GoalLimit {
  std::string_view name;   // as it is written down: "read_p99"
  std::string_view words;  // "read p99"
  std::optional<double> GoalLimits::*us_max;
  env::OpWindow env::WindowMetrics::*kind;
};
inline constexpr std::array<GoalLimit, 2> kGoalLimits = {{
    {"read_p99", "read p99", &GoalLimits::read_p99_us_max, &env::WindowMetrics::read},
    {"write_p99", "write p99", &GoalLimits::write_p99_us_max, &env::WindowMetrics::write},
}};

struct Goal {
  // A goal without extras is one of three words, and is written as that word everywhere.
  Goal(agents::GoalKind goal_kind = agents::GoalKind::kBalanced)  // NOLINT(google-explicit-*)
      : kind(goal_kind) {}
  // What agents are told; with custom weights the nearest of the three.
  agents::GoalKind kind;
  // Custom: they sum to 1. What has no traffic drops out, and the rest is scaled up.
  std::optional<ComponentWeights> weights;
  GoalLimits limits;
  bool operator==(const Goal&) const = default;
};

// read, write, balanced, custom
std::string_view GoalName(const Goal& goal);
// For people: "custom (read_p99 60 %, write_p50 40 %), read p99 at most 2 ms".
std::string GoalText(const Goal& goal);

// What is wrong with one entry of a goal that somebody wrote down.
struct GoalFault {
  std::string entry;  // the name that was given; empty: all of them together
  std::string text;   // "must be from 0 to 1"
};
// Names of components and what each weighs -> a custom goal; with faults the goal means nothing.
std::vector<GoalFault> ReadWeights(const std::map<std::string, double>& weights, Goal& goal);
// "read_p99", "write_p99" and microseconds -> the goal's limits, all of them anew.
std::vector<GoalFault> ReadLimits(const std::map<std::string, double>& limits_us, Goal& goal);
std::map<std::string, double> WeightsByName(const Goal& goal);  // empty unless custom
std::map<std::string, double> LimitsByName(const Goal& goal);

// Weights that sum to 1 over the kinds that have traffic in `metrics`; all zero when none has.
//
// Inside a kind: p50 0.40, p99 0.25, throughput 0.35. Between kinds: the goal's own kind carries
// 0.9 and the other 0.1 as a floor; balanced shares by the measured mix of operations. Custom
// weights are as given; all zero also when what they weigh has no traffic.
ComponentWeights WeightsFor(const Goal& goal, const env::WindowMetrics& metrics);

// ln(PI / 100) of `measured` where what the default gave under the same load was measured as well:
// `base`. Kinds that either has none of drop out; 0 when nothing is left.
double LogIndexAgainst(const Goal& goal, const env::WindowMetrics& measured,
                       const env::WindowMetrics& base);

}  // namespace ebb::engine
