// The twin's side of a cell: the same records, the same start, simulated.
#pragma once

#include "absl/status/statusor.h"
#include "env/twin/node_model.h"
#include "env/twin/request_stream.h"
#include "experiments/fidelity_bench/live_node.h"

namespace ebb::fidelity_bench {

// `costs` with the sizes and, where no device was fitted, the classes of `shape`.
twin::NodeModel TwinModel(const twin::NodeModel& costs, const NodeShape& shape);

absl::StatusOr<Outcome> RunTwin(const twin::NodeModel& model, const twin::RequestStream& stream,
                                const storage::Setting& setting, const RunTimes& times,
                                uint64_t seed);

}  // namespace ebb::fidelity_bench
