// Question: is the twin fast enough to search with, and does sampling keep its answers?
//
// usage: ebb_twin_bench [--repeats N] [--threads N] [--quick] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/status.h"
#include "experiments/storage_bench/bench_main.h"
#include "experiments/twin_bench/twin_figures.h"
#include "experiments/twin_bench/twin_studies.h"

namespace ebb::twin_bench {
namespace {

struct Arguments {
  storage_bench::BenchRun run{.bench = "twin", .repeats = 3};
  int threads = 2;
};

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  const int repeats = arguments.run.repeats;
  storage_bench::Samples samples;
  for (int i = 0; i < repeats; ++i) {
    const BenchOptions options{.quick = arguments.run.quick,
                               .threads = arguments.threads,
                               .repeat = static_cast<uint64_t>(i)};
    fmt::print(stderr, "[twin bench] repeat {}/{}: speed", i + 1, repeats);
    EBB_RETURN_IF_ERROR(MeasureSpeed(options, samples));
    fmt::print(stderr, ", sampling");
    EBB_RETURN_IF_ERROR(MeasureSampling(options, samples));
    fmt::print(stderr, ", sweep\n");
    EBB_RETURN_IF_ERROR(MeasureSweep(options, samples));
  }
  return storage_bench::Report(arguments.run, TwinFigures(), samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Speed of the twin, and what sampling does to its answers"};
  Arguments arguments;
  app.add_option("--repeats", arguments.run.repeats, "repeats; the median is the figure")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "of the sweep")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_flag("--quick", arguments.run.quick, "a tenth of everything: to see that it works");
  return storage_bench::BenchMain(app, argc, argv, arguments.run,
                                  [&] { return RunBench(arguments); });
}

}  // namespace
}  // namespace ebb::twin_bench

int main(int argc, char** argv) { return ebb::twin_bench::Main(argc, argv); }
