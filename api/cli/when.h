// ParseWhen reads the times of options such as --from.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ebb::cli {

// "1h" (ago), "now", RFC 3339 or Unix milliseconds, as Unix milliseconds. Errors name the option.
absl::StatusOr<int64_t> ParseWhen(const std::string& option, const std::string& text);

}  // namespace ebb::cli
