// Writes small files of text: reports, tables, configurations.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ebb {

// Replaces what is there. Unavailable when not all of it could be written. Not durable: what must
// survive a crash goes through WriteFileDurably.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace ebb
