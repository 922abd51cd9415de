// `ebb twin ... --node`: a twin fed by a node that runs, and held against what that measures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/session.h"
#include "env/twin/live_node.h"
#include "env/twin/simulator.h"
#include "nlohmann/json_fwd.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ebb::cli {

struct WatchOrder {
  std::string socket;
  double minutes = 1;
  double listen_seconds = 10;
  std::vector<const CLI::Option*> others;  // that cannot be told as well
};

// --node, --minutes and --listen. `command` has all options that describe a node or a load already:
// but for those of `allowed` they cannot be told as well.
void AddWatchOptions(CLI::App* command, WatchOrder& order, const std::vector<std::string>& allowed);

// Listens to the node; Ctrl-C ends it with Cancelled.
absl::StatusOr<twin::LiveNode> Watch(Session& session, const WatchOrder& order);

// What the twin shows of the time in which the node was measured, after a pass of the whole load.
absl::StatusOr<twin::WindowResult> PredictNode(const twin::SimulatorConfig& config,
                                               const twin::RequestStream& load,
                                               const twin::LiveNode& live);

// `config`'s node with the processor costs that the live node shows at this moment; says so.
absl::StatusOr<twin::NodeModel> CalibratedNode(const Session& session,
                                               const twin::SimulatorConfig& config,
                                               const twin::RequestStream& load,
                                               const twin::LiveNode& live);

// A window's figures, as all twin commands tell them.
nlohmann::ordered_json ToJson(const twin::WindowResult& window);

// The node beside its twin, and beside its twin with another setting when there is one.
struct Comparison {
  const twin::LiveNode& live;
  twin::WindowResult as_it_is;
  std::optional<twin::WindowResult> changed = std::nullopt;
};
void PrintComparison(const Session& session, const Comparison& comparison);
nlohmann::ordered_json ToJson(const Comparison& comparison);

}  // namespace ebb::cli
