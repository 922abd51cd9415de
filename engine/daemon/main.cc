// ebbd: the sidecar daemon. See run_daemon.h.
#include <cstdio>
#include <exception>

#include "agents/baseline/make_agent.h"
#include "engine/daemon/run_daemon.h"

int main(int argc, char** argv) {
  try {
    ebb::engine::DaemonParts parts;
    parts.make_agent = ebb::agents::MakeAgent;
    return ebb::engine::RunDaemon(argc, argv, parts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebbd: internal error: %s\n", error.what());
    return 1;
  }
}
