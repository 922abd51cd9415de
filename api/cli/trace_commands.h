// `ebb trace ...`: looks into traces of all formats, converts, synthesises and replays them.
#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

void AddTraceCommands(CLI::App& app, Session& session);

}  // namespace ebb::cli
