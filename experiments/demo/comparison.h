// Default against tuned: what the demo claims, and when it may claim nothing.
//
// The two settings run in turn, in pairs of blocks whose order is drawn. The unit of evidence is
// the pair: the difference of the log index of its two blocks. Windows inside a block resemble each
// other, so they are merged and never counted as independent. The 95 % interval is Student's over
// the pairs. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "base/rng.h"
#include "env/observation.h"

namespace ebb::demo {

// One stretch of windows under one setting, merged: counters added, gauges of the last.
env::WindowMetrics MergeWindows(std::span<const env::WindowMetrics> windows);

struct BlockPair {
  env::WindowMetrics by_default;
  env::WindowMetrics tuned;
};

// Log of the performance index of `pair.tuned` against `pair.by_default` (0 = equal): the engine's
// components and weights, the mix taken from both blocks together.
double PairLogIndex(agents::GoalKind goal, const BlockPair& pair);

struct Comparison {
  size_t pairs = 0;
  // The index with its 95 % interval; 100 = default. NaN where fewer than two pairs were measured.
  double index = 0;
  double low = 0;
  double high = 0;
  // The interval leaves out 100.
  bool claim = false;

  // "112.4 (109.0 to 115.9)", or "101.2 (97.9 to 104.6) no claim: the interval includes zero".
  std::string ToText() const;
};
Comparison Compare(std::span<const double> log_indexes);

// 97.5 % quantile of Student's t distribution.
double StudentQuantile975(size_t degrees_of_freedom);

// For each pair: whether tuned goes first. As many one way as the other (one more when odd), in
// drawn order, so that a drift favours neither.
std::vector<bool> DrawOrder(size_t pairs, Rng& rng);

}  // namespace ebb::demo
