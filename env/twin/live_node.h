// LiveNode: what a twin needs of a node that runs, and what the node measures meanwhile.
//
// WatchNode asks the node what it is, takes the requests of the last minutes that it remembers and
// listens on for what is missing of them. While it listens, the node's own counters say how fast it
// is: what the twin's prediction is held against.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "env/node/node_codec.h"
#include "env/observation.h"
#include "env/twin/node_model.h"
#include "env/twin/request_stream.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {
class JsonRpcClient;
}

namespace ebb::twin {

struct WatchOptions {
  double minutes = 1;          // of load
  double listen_seconds = 10;  // at least so long, however much the node remembers
  const std::atomic<bool>* stop = nullptr;
  // Called several times a second: how much of the listening is done, and how many requests there
  // are.
  std::function<void(double share, size_t requests)> on_progress = {};
};

struct LiveNode {
  std::string name;
  NodeModel model;
  storage::Setting setting;  // in force, all the time
  // The load; by the node's clock it is of [begin_ns, end_ns), which ends when the listening did.
  RequestStream load{0};
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  env::WindowMetrics measured;         // while we listened
  env::WorkloadDescriptor descriptor;  // of the same time
  int closed_loop_clients = 0;         // 0: they keep their own pace
  uint64_t dropped = 0;                // requests that the node forgot before they were read
  std::vector<std::string> notes;      // what was assumed, for people

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

// FailedPrecondition when the twin cannot be like it (several disk groups), when it was idle or
// when its setting changed meanwhile; Cancelled when stopped; else the node's errors.
absl::StatusOr<LiveNode> WatchNode(storage::JsonRpcClient& node, const WatchOptions& options,
                                   Clock& clock = RealClock());

// The node's counters as they are now.
absl::StatusOr<env::NodeSnapshot> TakeSnapshot(storage::JsonRpcClient& node);

// The model of a node of `device_class` that says of itself what stands in `machine`, and how full
// it is in `now`. What it does not say is assumed, with a line in `notes`.
absl::StatusOr<NodeModel> ModelOf(const env::NodeMachine& machine, const env::NodeInfo& info,
                                  const env::NodeSnapshot& now, std::vector<std::string>& notes);

}  // namespace ebb::twin
