// Goal: which parts of a window's measurements count, and how much, for read, write and balanced.
//
// Pure functions over one window; nothing here knows the baseline or the guard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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

// Weights that sum to 1 over the kinds that have traffic in `metrics`; all zero when none has.
//
// Inside a kind: p50 0.40, p99 0.25, throughput 0.35. Between kinds: the goal's own kind carries
// 0.9 and the other 0.1 as a floor; balanced shares by the measured mix of operations.
using ComponentWeights = std::array<double, kComponentCount>;
ComponentWeights WeightsFor(agents::GoalKind goal, const env::WindowMetrics& metrics);

// ln(PI / 100) of `measured` where what the default gave under the same load was measured as well:
// `base`. Kinds that either has none of drop out; 0 when nothing is left.
double LogIndexAgainst(agents::GoalKind goal, const env::WindowMetrics& measured,
                       const env::WindowMetrics& base);

}  // namespace ebb::engine
