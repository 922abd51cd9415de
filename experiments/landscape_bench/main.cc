// Question: is there anything to tune, for whom, and does one setting do for all?
//
// usage: ebb_landscape_bench [--threads N] [--quick] [--out FILE.json]
// Prints the tables and every figure with its bar; beside FILE.json writes them as FILE.txt,
// FILE-cells.csv, FILE-knobs.csv and FILE-regrets.csv. Exits with 1 when a bar does not hold.
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/status.h"
#include "base/text_file.h"
#include "experiments/landscape_bench/landscape.h"
#include "experiments/landscape_bench/report.h"
#include "experiments/storage_bench/bench_main.h"

namespace ebb::landscape_bench {
namespace {

struct Arguments {
  storage_bench::BenchRun run{.bench = "landscape"};
  LandscapeOptions options;
};

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  EBB_ASSIGN_OR_RETURN(const Landscape landscape, MeasureLandscape(arguments.options));
  const std::string text = LandscapeText(landscape);
  fmt::print("{}\n", text);
  if (const std::string& path = arguments.run.out_path; !path.empty()) {
    const std::string stem = path.substr(0, path.rfind(".json"));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + ".txt", text));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + "-cells.csv", CellsCsv(landscape)));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + "-knobs.csv", KnobsCsv(landscape)));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + "-regrets.csv", RegretsCsv(landscape)));
  }
  return storage_bench::Report(arguments.run, LandscapeFigures(), LandscapeSamples(landscape));
}

int Main(int argc, char** argv) {
  CLI::App app{"What there is to gain by tuning, by workload family and device class"};
  Arguments arguments;
  LandscapeOptions& options = arguments.options;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("--threads", options.threads, "default: all cores")->check(CLI::Range(1, 256));
  app.add_option("--seed", options.seed, "same seed, same numbers")->capture_default_str();
  app.add_option("--only", options.only, "families whose name holds this");
  CLI::Option* settings = app.add_option("--settings", options.settings, "Sobol settings");
  app.add_flag("--quick", arguments.run.quick, "128 settings: to see that it works");
  return storage_bench::BenchMain(app, argc, argv, arguments.run, [&] {
    if (arguments.run.quick) {
      if (settings->count() == 0) options.settings = 128;
      options.block_operations = 400'000;
      options.finalists = 2;
      options.everywhere = 1;
      options.select_seeds = 1;
    }
    return RunBench(arguments);
  });
}

}  // namespace
}  // namespace ebb::landscape_bench

int main(int argc, char** argv) { return ebb::landscape_bench::Main(argc, argv); }
