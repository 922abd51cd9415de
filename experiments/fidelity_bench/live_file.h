// Live results kept in a file, so that a changed twin can be judged again without measuring again.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/twin/node_model.h"
#include "experiments/fidelity_bench/verdict.h"

namespace ebb::fidelity_bench {

struct LiveResults {
  // The model fitted then, without its sizes, by workload; in the order of `workloads`.
  std::vector<twin::NodeModel> models = {};
  std::vector<WorkloadCells> workloads = {};  // the twin's outcomes are not kept
  double seconds = 0;                         // length of the loads
  RunTimes times = {};
};

absl::Status SaveLive(const std::string& path, const LiveResults& results);
// InvalidArgument when the file is none of these.
absl::StatusOr<LiveResults> LoadLive(const std::string& path);

}  // namespace ebb::fidelity_bench
