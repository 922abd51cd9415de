// What the front end adds to a request: measured by reading one hot block through NBD.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "env/twin/node_model.h"

namespace ebb::twin {

// Sets cpu.nbd_request (processor time of the node beyond the verb's) and client_overhead_ns (the
// rest of what a client waits). Reads the export's first block some thousand times and changes
// nothing. `control_socket` is the same node's; the verb's own costs are taken from `node`.
// Unavailable when nobody answers there.
absl::Status MeasureNbdCost(const std::string& uri, const std::string& control_socket,
                            NodeModel& node);

}  // namespace ebb::twin
