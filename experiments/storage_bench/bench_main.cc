#include "experiments/storage_bench/bench_main.h"

#include <exception>

#include <fmt/format.h>

namespace ebb::storage_bench {

int BenchMain(CLI::App& app, int argc, char** argv, BenchRun& run,
              const std::function<absl::StatusOr<bool>()>& bench) {
  app.add_option("--out", run.out_path, "write the figures as JSON to this file");
  app.add_option("--commit", run.commit, "commit to name in the file");
  CLI11_PARSE(app, argc, argv);
  run.load_average_at_start = LoadAverage();
  try {
    const absl::StatusOr<bool> all_hold = bench();
    if (all_hold.ok()) return *all_hold ? 0 : 1;
    fmt::print(stderr, "{} bench: {}\n", run.bench, all_hold.status().ToString());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} bench: {}\n", run.bench, error.what());
  }
  return 2;
}

}  // namespace ebb::storage_bench
