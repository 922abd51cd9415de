// Question: is the twin fast enough to search with, and does sampling keep its answers?
//
// usage: ebb_twin_bench [--repeats N] [--threads N] [--quick] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <time.h>

#include "base/status.h"
#include "experiments/storage_bench/bench_report.h"
#include "experiments/twin_bench/twin_figures.h"
#include "experiments/twin_bench/twin_studies.h"

namespace ebb::twin_bench {
namespace {

struct Arguments {
  std::string out_path;
  std::string commit = "unknown";
  int repeats = 3;
  int threads = 2;
  bool quick = false;
};

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  const storage_bench::BenchRun run{.bench = "twin",
                                    .out_path = arguments.out_path,
                                    .commit = arguments.commit,
                                    .repeats = arguments.repeats,
                                    .quick = arguments.quick,
                                    .load_average_at_start = storage_bench::LoadAverage()};
  storage_bench::Samples samples;
  for (int i = 0; i < arguments.repeats; ++i) {
    const BenchOptions options{
        .quick = arguments.quick, .threads = arguments.threads, .repeat = static_cast<uint64_t>(i)};
    fmt::print(stderr, "[twin bench] repeat {}/{}: speed", i + 1, arguments.repeats);
    EBB_RETURN_IF_ERROR(MeasureSpeed(options, samples));
    fmt::print(stderr, ", sampling");
    EBB_RETURN_IF_ERROR(MeasureSampling(options, samples));
    fmt::print(stderr, ", sweep\n");
    EBB_RETURN_IF_ERROR(MeasureSweep(options, samples));
  }
  std::vector<const storage_bench::FigureSpec*> specs;
  for (const storage_bench::FigureSpec& spec : TwinFigures()) specs.push_back(&spec);
  return storage_bench::Report(run, specs, samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Speed of the twin, and what sampling does to its answers"};
  Arguments arguments;
  app.add_option("--out", arguments.out_path, "write the figures as JSON to this file");
  app.add_option("--commit", arguments.commit, "commit to name in the file");
  app.add_option("--repeats", arguments.repeats, "repeats; the median is the figure")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "of the sweep")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_flag("--quick", arguments.quick, "a tenth of everything: to see that it works");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<bool> all_hold = RunBench(arguments);
  if (!all_hold.ok()) {
    fmt::print(stderr, "twin bench: {}\n", all_hold.status().ToString());
    return 2;
  }
  return *all_hold ? 0 : 1;
}

}  // namespace
}  // namespace ebb::twin_bench

int main(int argc, char** argv) {
  try {
    return ebb::twin_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "twin bench: {}\n", error.what());
    return 2;
  }
}
