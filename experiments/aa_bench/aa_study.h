// The A/A study: the product's loop and guard over an environment, with an agent whose proposals do
// nothing, until so many trials have a verdict.
//
// Only what would keep the same move from being tried again is switched off (tabu, back-off, the
// hourly budget, probation); every test, margin and trip wire is the product's. A trial that ends
// void says nothing about the guard and is not counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/history/history.h"
#include "engine/loop/loop_config.h"
#include "experiments/aa_bench/null_agent.h"

namespace ebb::aa_bench {

struct AaOptions {
  uint32_t trials = 300;
  agents::GoalKind goal = agents::GoalKind::kBalanced;
  ShamKnob sham;
  engine::LoopConfig loop = AaLoopConfig();

  static engine::LoopConfig AaLoopConfig();
};

struct AaResult {
  std::vector<engine::Change> trials;           // with a verdict, not void; oldest first
  std::map<std::string, uint64_t> void_trials;  // by the reason, without its numbers
  uint64_t windows = 0;
  uint64_t void_windows = 0;
  std::vector<double> indexes;  // of every window that has one
};

// How far it is, once a window.
using OnWindow = std::function<void(uint64_t trials_done, const engine::NodeStatus& status)>;

// Ends early, with what was found so far, when `stop` becomes true. Unavailable when the
// environment was lost, which voids what a study would say.
absl::StatusOr<AaResult> RunAaStudy(const AaOptions& options, Clock& clock,
                                    engine::History& history,
                                    engine::EnvironmentFactory make_environment,
                                    const std::atomic<bool>& stop, const OnWindow& on_window);

}  // namespace ebb::aa_bench
