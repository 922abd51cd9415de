// Question: is there anything to tune, for whom, and does one setting do for all?
//
// usage: ebb_landscape_bench [--threads N] [--quick] [--out FILE.json]
// Prints the tables and every figure with its bar; beside FILE.json writes them as FILE.txt,
// FILE-cells.csv, FILE-knobs.csv and FILE-regrets.csv. Exits with 1 when a bar does not hold.
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/status.h"
#include "base/text_file.h"
#include "experiments/landscape_bench/landscape.h"
#include "experiments/landscape_bench/report.h"
#include "experiments/storage_bench/bench_report.h"

namespace ebb::landscape_bench {
namespace {

struct Arguments {
  std::string out_path;
  std::string commit = "unknown";
  bool quick = false;
  LandscapeOptions options;
};

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  const storage_bench::BenchRun run{.bench = "landscape",
                                    .out_path = arguments.out_path,
                                    .commit = arguments.commit,
                                    .repeats = 1,
                                    .quick = arguments.quick,
                                    .load_average_at_start = storage_bench::LoadAverage()};
  EBB_ASSIGN_OR_RETURN(const Landscape landscape, MeasureLandscape(arguments.options));
  const std::string text = LandscapeText(landscape);
  fmt::print("{}\n", text);
  if (!arguments.out_path.empty()) {
    const std::string stem = arguments.out_path.substr(0, arguments.out_path.rfind(".json"));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + ".txt", text));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + "-cells.csv", CellsCsv(landscape)));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + "-knobs.csv", KnobsCsv(landscape)));
    EBB_RETURN_IF_ERROR(WriteTextFile(stem + "-regrets.csv", RegretsCsv(landscape)));
  }
  std::vector<const storage_bench::FigureSpec*> specs;
  for (const storage_bench::FigureSpec& spec : LandscapeFigures()) specs.push_back(&spec);
  return storage_bench::Report(run, specs, LandscapeSamples(landscape));
}

int Main(int argc, char** argv) {
  CLI::App app{"What there is to gain by tuning, by workload family and device class"};
  Arguments arguments;
  LandscapeOptions& options = arguments.options;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("--out", arguments.out_path, "write the figures as JSON to this file");
  app.add_option("--commit", arguments.commit, "commit to name in the file");
  app.add_option("--threads", options.threads, "default: all cores")->check(CLI::Range(1, 256));
  app.add_option("--seed", options.seed, "same seed, same numbers")->capture_default_str();
  app.add_option("--only", options.only, "families whose name holds this");
  CLI::Option* settings = app.add_option("--settings", options.settings, "Sobol settings");
  app.add_flag("--quick", arguments.quick, "128 settings: to see that it works");
  CLI11_PARSE(app, argc, argv);
  if (arguments.quick) {
    if (settings->count() == 0) options.settings = 128;
    options.block_operations = 400'000;
    options.finalists = 2;
    options.everywhere = 1;
    options.select_seeds = 1;
  }
  const absl::StatusOr<bool> all_hold = RunBench(arguments);
  if (!all_hold.ok()) {
    fmt::print(stderr, "landscape bench: {}\n", all_hold.status().ToString());
    return 2;
  }
  return *all_hold ? 0 : 1;
}

}  // namespace
}  // namespace ebb::landscape_bench

int main(int argc, char** argv) {
  try {
    return ebb::landscape_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "landscape bench: {}\n", error.what());
    return 2;
  }
}
