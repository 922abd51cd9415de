// `ebb trace record`: a running node's requests, as it tells them, into a trace file.
#pragma once

#include "api/cli/session.h"

namespace ebb::cli {

void AddTraceRecord(CLI::App& trace, Session& session);

}  // namespace ebb::cli
