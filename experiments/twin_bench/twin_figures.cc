#include "experiments/twin_bench/twin_figures.h"

namespace ebb::twin_bench {

using storage_bench::Direction;

const std::vector<storage_bench::FigureSpec>& TwinFigures() {
  static const std::vector<storage_bench::FigureSpec> table = {
      {"full_model_ops_per_s",
       "4 KiB block operations per CPU-second",
       Direction::kAtLeast,
       3e6,
       "full.ops_per_s",
       {},
       "one minute of 10,000 operations a second (70 % reads, 4 KiB, Zipf 0.9 over 4 GiB, 10 % "
       "duplicates, a flush each hundredth write), default setting, 1 GiB of NVMe before two "
       "devices of each class (7200 rpm disk, SATA flash, NVMe), after warming up; all operations "
       "over all processor time; a plain LRU of 1 GiB over the same requests: lru.ops_per_s"},
      {"sampled_speedup",
       "ratio",
       Direction::kAtLeast,
       7,
       "sampled.speedup",
       {},
       "processor time of the same runs over that of their 1/10 samples, making the node and "
       "warming it up included"},
      {"sampled_index_error",
       "share of the index",
       Direction::kAtMost,
       0.03,
       "sampled.index_error",
       {},
       "how far the balanced index of a setting against the default moves by 1/10 sampling: median "
       "over 8 Sobol settings of all knobs x 3 device classes x 3 loads (mixed, 80 % writes at "
       "20,000, 16 KiB with scans); its 90th percentile and maximum stand in the series"},
      {"sweep_1000_settings_s",
       "seconds",
       Direction::kAtMost,
       60,
       "sweep.seconds",
       {},
       "1,000 Sobol settings of the agent's knobs over one minute of 10,000 operations a second, "
       "1/10 sample, SATA flash, loading and sampling included: processor time over the number of "
       "threads (2); the wall time beside other work is sweep.wall_s"},
      {"steady_300_settings_s",
       "seconds",
       Direction::kAtMost,
       30,
       "sweep.steady_300_s",
       {},
       "300 of them to steady state on one core: warmed up, 5 s settled, 1 s measured"},
  };
  return table;
}

}  // namespace ebb::twin_bench
