// `ebb history verify`: recomputes the hash chain of a history on this machine.
#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

void AddHistoryVerify(CLI::App& app, Session& session);

}  // namespace ebb::cli
