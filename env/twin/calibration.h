// Calibration: the twin's processor costs, scaled until its default run shows what a live node
// shows.
//
// Costs that were fitted alone on a machine (`ebb twin fit`) are those of caches that hold little
// else. What a request costs beside a node's own traffic is one and a half to three times that, by
// how often requests come, how large they are and who else uses the caches: a factor of the load,
// not of the setting. The live node's default run knows it. What devices do is left as it is.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "env/observation.h"
#include "env/twin/node_model.h"

namespace ebb::twin {

// Simulates the setting that `live` was measured under, with `model`.
using RunModel = std::function<absl::StatusOr<env::WindowMetrics>(const NodeModel& model)>;

// `model` with the costs of reads, writes and full groups scaled, each by 1/4 to 6: reads and
// writes by the p50 of their latencies where that is the processor's alone (below 25 us live and
// simulated; one that is not takes the other's factor), full groups by the p99 of writes likewise
// (400 us). Errors are those of `run`.
absl::StatusOr<NodeModel> CalibrateCosts(const NodeModel& model, const env::WindowMetrics& live,
                                         const RunModel& run);

}  // namespace ebb::twin
