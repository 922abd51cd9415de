// Sweep: one load under many settings, on as many cores as there are.
//
// Every run begins as the others do: the node made anew, its log and caches filled without time,
// then settled, then measured. What a run shows does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "env/knob_space.h"
#include "env/twin/simulator.h"

namespace ebb::twin {

// How long a run is, in the node's time.
struct RunLength {
  int warm_up_passes = 2;
  double warm_up_share = 1;  // below 1: of the load, which then goes on; see Simulator::WarmUp
  double settle_seconds = 3;
  double measure_seconds = 30;
};

struct SweepResult {
  env::Setting setting;
  absl::Status status;  // why there is no window
  WindowResult window;
  double cpu_seconds = 0;  // that the run took
};

// One run.
SweepResult RunSetting(const SimulatorConfig& config, const env::Setting& setting,
                       const RequestStream& load, const RunLength& length);

// In the order of `settings`. `progress` is called from any thread, one at a time, with the number
// of runs done; false stops the sweep after the runs under way.
std::vector<SweepResult> RunSweep(const SimulatorConfig& config,
                                  std::span<const env::Setting> settings, const RequestStream& load,
                                  const RunLength& length, int threads,
                                  const std::function<bool(size_t done)>& progress = nullptr);

// `count` evenly spread settings; knobs that an operator owns stay as they are in `base` unless
// `all_knobs`. The scrubber stays off: it moves nothing but bandwidth.
std::vector<env::Setting> SpreadSettings(const env::KnobSpace& space, const env::Setting& base,
                                         size_t count, bool all_knobs, uint64_t seed);

}  // namespace ebb::twin
