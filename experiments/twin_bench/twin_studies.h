// What the twin bench measures, one repeat at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::twin_bench {

struct BenchOptions {
  bool quick = false;  // a tenth of everything: to see that it works, not for figures
  int threads = 2;     // of the sweep
  uint64_t repeat = 0;
};

// One minute of 10,000 operations a second on three device classes, the full model and its sample;
// beside it a plain LRU over the same requests.
absl::Status MeasureSpeed(const BenchOptions& options, storage_bench::Samples& samples);
// The index of settings against the default, full and sampled.
absl::Status MeasureSampling(const BenchOptions& options, storage_bench::Samples& samples);
// 1,000 settings, sampled.
absl::Status MeasureSweep(const BenchOptions& options, storage_bench::Samples& samples);

}  // namespace ebb::twin_bench
