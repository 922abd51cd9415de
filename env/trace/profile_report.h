// A profile in words for people and as JSON for programs.
#pragma once

#include <string>

#include "env/trace/trace_profile.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

// Several lines. `source` has been read to its end.
std::string ProfileText(const TraceProfile& profile, const TraceSource& source);
// One object; what the trace cannot tell is null.
std::string ProfileJson(const TraceProfile& profile, const TraceSource& source);

}  // namespace ebb::env
