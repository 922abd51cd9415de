// RunDaemon: the whole sidecar, from its arguments to its end. The only place that puts the
// engine, the node adapter, the agents and the REST interface together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "agents/agent.h"
#include "engine/loop/loop_config.h"

namespace ebb::engine {

// What a daemon is made of besides its configuration. Tests run the product with agents of their
// own.
struct DaemonParts {
  LoopConfig loop;
  // Makes the agent of the configured name.
  std::function<absl::StatusOr<std::unique_ptr<agents::Agent>>(std::string_view name,
                                                               uint64_t seed)>
      make_agent;
};

// Runs until SIGTERM or SIGINT; then open trials are ended, nodes keep their incumbents, and what
// was decided is durable. A second signal ends the process at once: the nodes' leases then do the
// rest. Returns the exit code: 0 done, 1 error, 2 wrong arguments or configuration, 4 refused
// because another process has the state folder or the address. Everything is said on stderr.
int RunDaemon(int argc, char** argv, const DaemonParts& parts);

}  // namespace ebb::engine
