// Sizes and durations as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ebb {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kNsPerUs = 1'000;
inline constexpr uint64_t kNsPerMs = 1'000'000;
inline constexpr uint64_t kNsPerS = 1'000'000'000;

// "1.5 GiB", "4 KiB", "17 B": three significant digits at most.
std::string FormatBytes(uint64_t bytes);
// "850 ns", "12.3 us", "4.56 ms", "7.8 s", "3 min 20 s".
std::string FormatDurationNs(uint64_t ns);
// "4096", "64k", "1.5MiB", "2G": binary multiples, case-blind, optional B or iB.
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);
// "500ms", "20s", "5min", "1h"; a bare number is seconds.
absl::StatusOr<uint64_t> ParseDurationNs(std::string_view text);

}  // namespace ebb
