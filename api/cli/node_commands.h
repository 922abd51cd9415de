// `ebb node start|stop|status|drain`: the commands that talk to a node itself, not to the daemon.
#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

// Adds the subcommand `node` to `app`; `session` must outlive it.
void AddNodeCommands(CLI::App& app, Session& session);

}  // namespace ebb::cli
