#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

// `ebb twin fit`: measures devices and a node's costs for `ebb twin run|sweep --model`.
void AddTwinFitCommand(CLI::App& twin, Session& session);

}  // namespace ebb::cli
