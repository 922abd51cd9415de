#include "experiments/history_bench/history_figures.h"

namespace ebb::history_bench {

using storage_bench::Direction;

const std::vector<storage_bench::FigureSpec>& HistoryFigures() {
  static const std::vector<storage_bench::FigureSpec> table = {
      {"query_day_p99_ms",
       "milliseconds",
       Direction::kAtMost,
       20,
       "query.worst_p99_ms",
       {},
       "a page of 100 changes of one random day of a year, from 10 million events of four nodes: "
       "the worst 99th percentile over the filters none, node, knob, verdict, pending, actor, "
       "goal, "
       "context and all of them together (query.*; pages of 500: query_500.*; without waiting "
       "for a processor that other programs had: worst_p99_own_ms)"},
      {"open_s",
       "seconds",
       Direction::kAtMost,
       2,
       "open.worst_s",
       {},
       "what a starting sidecar asks of its history, head check and open changes included, "
       "nothing in the page cache: the worst of five starts, the first one after kill -9 "
       "(without waiting for a processor: open.*_own_s)"},
      {"bytes_per_event",
       "bytes",
       Direction::kAtMost,
       400,
       "size.bytes_per_event",
       {},
       "all files of the history over its events; three of twenty hold a whole change"},
      {"verify_events_per_cpu_s",
       "events a CPU-second",
       Direction::kAtLeast,
       100'000,
       "verify.events_per_cpu_s",
       {},
       "ebb history verify: every event's checksum, the whole chain, and each change's newest "
       "state"},
  };
  return table;
}

}  // namespace ebb::history_bench
