// Unix milliseconds as people and APIs write them: RFC 3339 in UTC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ebb {

// "2026-07-29T18:04:05.123Z". Any int64_t is accepted; years outside 0 to 9999 are clamped.
std::string FormatRfc3339(int64_t wall_ms);

// "2026-07-29T18:04:05Z", with an optional fraction (cut to milliseconds) and "Z" or "+02:00"; or a
// bare integer: Unix milliseconds. Refuses dates that do not exist, such as February 30.
absl::StatusOr<int64_t> ParseTimeMs(std::string_view text);

}  // namespace ebb
