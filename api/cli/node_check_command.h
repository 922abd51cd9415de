// `ebb node check`: a stopped node looked over, read-only.
#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

// Exit codes of the command: 0 clean, 1 faults found, 2 could not check.
void AddCheck(CLI::App& node, Session& session);

}  // namespace ebb::cli
