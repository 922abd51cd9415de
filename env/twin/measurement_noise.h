// MeasurementNoise disturbs a window's figures as a live measurement is disturbed: autocorrelated
// from window to window, with a heavy tail now and then.
//
// For experiments that ask how a tuner does under noise; without it the twin's windows differ only
// by what the load does. Deterministic by seed.
#pragma once

#include <array>
#include <cstdint>

#include "base/rng.h"
#include "env/observation.h"

namespace ebb::twin {

struct NoiseSpec {
  double cv = 0;               // coefficient of variation of every latency, and of throughput
  double autocorrelation = 0;  // of one window to the next, below 1
  double tail_chance = 0;      // of a window whose upper tenth of latencies is stretched ...
  double tail_scale = 1;       // ... by 1 plus an exponential of this mean
};

class MeasurementNoise {
 public:
  MeasurementNoise(const NoiseSpec& spec, uint64_t seed);

  // `closed_loop`: throughput follows the latencies, so it is disturbed as well.
  void Disturb(bool closed_loop, env::WindowMetrics& metrics);

 private:
  static constexpr size_t kKinds = 3;  // reads, writes, throughput

  NoiseSpec spec_;
  Rng rng_;
  std::array<double, kKinds> state_{};  // logarithms
};

}  // namespace ebb::twin
