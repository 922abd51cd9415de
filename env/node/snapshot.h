// NodeSnapshot: what metrics.get of a node told at one instant; a window is the difference of two.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/histogram.h"
#include "env/observation.h"

namespace ebb::env {

// Cumulative since the node's start.
struct OpTotals {
  uint64_t ops = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  LatencyHistogram latency;
};

struct NodeSnapshot {
  int64_t wall_ms = 0;
  uint64_t monotonic_ns = 0;  // the node's clock
  uint64_t epoch = 0;
  uint64_t setting_version = 0;
  OpTotals read;
  OpTotals write;
  OpTotals flush;
  OpTotals trim;
  std::map<std::string, uint64_t> counters;
  std::map<std::string, double> gauges;

  // 0 when the node does not know the name: a later or earlier build.
  uint64_t Counter(const std::string& name) const;
  double Gauge(const std::string& name) const;
};

// What must hold for the difference to be a measurement.
struct WindowLimits {
  // By the watcher's own clock; the node's must agree.
  double expected_seconds = 1;
  // Processor seconds a second that the host can give at all; 0 = unknown.
  double processors = 0;
};

// The window from `before` to `after`. `void_reason` gets one sentence when the numbers are stale,
// impossible or contradict each other; the metrics are then left as they were.
WindowMetrics MeasureWindow(const NodeSnapshot& before, const NodeSnapshot& after,
                            const WindowLimits& limits, std::string& void_reason);

}  // namespace ebb::env
