// `ebb history export`: changes out of a history's files, as JSON lines or CSV.
#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

// Adds the subcommand to `ebb history`.
void AddHistoryExport(CLI::App& history, Session& session);

}  // namespace ebb::cli
