// SeriesRetention: how long the history keeps the series of windows, and each level of its
// roll-ups.
#pragma once

#include <cstdint>

namespace ebb::engine {

inline constexpr int64_t kMsPerDay = int64_t{24} * 3600 * 1000;

// A coarser level is kept at least as long as the finer ones.
struct SeriesRetention {
  int64_t windows_ms = 2 * kMsPerDay;
  int64_t ten_seconds_ms = 7 * kMsPerDay;
  int64_t minutes_ms = 30 * kMsPerDay;
  int64_t ten_minutes_ms = 730 * kMsPerDay;
};

}  // namespace ebb::engine
