// The demo's last words: default against tuned per phase, and every change with its reason.
#pragma once

#include <string>
#include <vector>

#include "experiments/demo/comparison.h"
#include "experiments/demo/sidecar.h"

namespace ebb::demo {

struct PhaseResult {
  std::string id;
  std::string title;
  env::WindowMetrics by_default;  // all its blocks merged
  env::WindowMetrics tuned;       // nothing when tuned is the default
  Comparison comparison;
  size_t dropped_pairs = 0;  // of which a block had too few usable windows
};

// A table; latencies in ms as the node measured them.
std::string ResultTable(const std::vector<PhaseResult>& results);
// One paragraph a change, oldest first.
std::string ChangeList(const std::vector<ChangeLine>& changes);

}  // namespace ebb::demo
