#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

// `ebb twin run` and `ebb twin sweep`: a node that does not exist, under a load that does.
void AddTwinCommands(CLI::App& app, Session& session);

}  // namespace ebb::cli
