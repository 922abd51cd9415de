// The demo as a whole: node, sidecar, load, tuning, comparison, report.
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "experiments/demo/scenario.h"

namespace ebb::demo {

// Runs it; progress goes to stderr, the report to stdout. Cancelled when `stop` became true. Every
// process it started has ended and its scratch folder is gone when it returns, unless options.keep.
absl::Status RunDemo(const Options& options, const std::atomic<bool>& stop);

}  // namespace ebb::demo
