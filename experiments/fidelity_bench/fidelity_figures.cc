#include "experiments/fidelity_bench/fidelity_figures.h"

namespace ebb::fidelity_bench {

using storage_bench::Direction;

const std::vector<storage_bench::FigureSpec>& FidelityFigures() {
  static const std::vector<storage_bench::FigureSpec> table = {
      {"sign_agreement",
       "share",
       Direction::kAtLeast,
       0.90,
       "fidelity.sign_agreement",
       {},
       "of the settings whose balanced index differs from the default's by more than live "
       "measurement detects (5 %, power 80 %): those for which the twin says the same sign; all "
       "workloads together, interval by drawing effects anew"},
      {"spearman_min",
       "rank correlation",
       Direction::kAtLeast,
       0.85,
       "fidelity.spearman_min",
       {},
       "Spearman's rank correlation of the settings' indexes, live and twin, of the workload where "
       "it is lowest"},
      {"p50_error_median",
       "share",
       Direction::kAtMost,
       0.15,
       "fidelity.p50_error_median",
       {},
       "|twin / live - 1| of the median latency of reads and of writes, entry to return of the "
       "verb: median over settings and workloads; live is the median of the repeats"},
      {"p99_error_median",
       "share",
       Direction::kAtMost,
       0.30,
       "fidelity.p99_error_median",
       {},
       "the same of the 99th percentile"},
      {"throughput_error_median",
       "share",
       Direction::kAtMost,
       0.10,
       "fidelity.throughput_error_median",
       {},
       "the same of bytes completed a second, offered by time; fidelity.saturated_cells of them "
       "answer less than 97 % of what they are asked"},
      {"best_setting_regret",
       "share of the index",
       Direction::kAtMost,
       0.05,
       "fidelity.best_setting_regret",
       {},
       "how much worse the setting that the twin likes best is, measured live, than the best live "
       "setting (chosen by the other repeats), of the workload where that is most"},
  };
  return table;
}

}  // namespace ebb::fidelity_bench
