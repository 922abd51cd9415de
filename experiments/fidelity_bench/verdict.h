// Verdict: what live measurements and the twin's predictions of the same cells say about the twin.
//
// A cell is a setting under a workload. Settings are judged by the logarithm of the performance
// index (goal balanced) against the default setting, measured or simulated under the same load.
#pragma once

#include <string>
#include <vector>

#include "experiments/fidelity_bench/live_node.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::fidelity_bench {

struct Cell {
  size_t setting = 0;  // 0: the default
  std::vector<Outcome> live = {};
  Outcome twin = {};
};

// One workload's cells, by setting.
struct WorkloadCells {
  std::string name;
  bool recorded = false;
  double offered_bytes_per_s = 0;
  std::vector<Cell> cells = {};
};

// Where what a cell answers is less than 97 % of what it was asked for.
bool Saturated(const WorkloadCells& workload, const Cell& cell);

// Fills the series of the figures and those beside them, by workload. The three values of a
// figure's series are the lower end of its 95 % interval, the value, and the upper end.
void Judge(const std::vector<WorkloadCells>& workloads, storage_bench::Samples& samples);

// The table by workload, and the cells that are predicted worst.
std::string Table(const std::vector<WorkloadCells>& workloads);

}  // namespace ebb::fidelity_bench
