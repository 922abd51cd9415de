// Paced: how long something takes a thread that slept before it.
//
// A request of an open load meets one of many threads that has just woken up: its caches are cold,
// which makes the same few microseconds of work two or three times as long as in a loop. What the
// twin is to predict are such requests, so that is how their costs are measured. Quantiles, so that
// whoever else uses the machine disturbs little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace ebb::twin {

inline constexpr uint64_t kPaceNs = 500'000;

class PacedTimes {
 public:
  // How long `step(i)`, i = 0 .. count - 1, took, each on one of sixteen threads in turn after its
  // sleep, never two at once.
  static absl::StatusOr<PacedTimes> Measure(size_t count,
                                            const std::function<absl::Status(size_t i)>& step);

  double MedianNs() const { return QuantileNs(0.5); }
  double QuantileNs(double q) const;

 private:
  std::vector<uint64_t> sorted_ns_;
};

// The median alone.
absl::StatusOr<double> PacedMedianNs(size_t count,
                                     const std::function<absl::Status(size_t i)>& step);

// Mean ns by which a sleep lasts too long, while `busy_threads` others compute.
double SleepOvershootNs(size_t count, int busy_threads);

}  // namespace ebb::twin
