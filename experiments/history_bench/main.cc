// Question: does a history of ten million events still open and answer at once?
//
// usage: ebb_history_bench [--events N] [--repeats N] [--quick] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "experiments/history_bench/history_figures.h"
#include "experiments/history_bench/history_studies.h"
#include "experiments/storage_bench/bench_report.h"
#include "experiments/support/scratch.h"

namespace ebb::history_bench {
namespace {

constexpr uint64_t kEvents = 10'000'000;
constexpr uint64_t kQuickEvents = 200'000;

struct Arguments {
  std::string out_path;
  std::string commit = "unknown";
  std::string parent = "/tmp";
  uint64_t events = 0;
  int repeats = 200;
  bool quick = false;
};

// A folder that goes with the object.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string history() const { return path_ + "/history"; }

 private:
  const std::string path_;
};

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  const storage_bench::BenchRun run{.bench = "history",
                                    .out_path = arguments.out_path,
                                    .commit = arguments.commit,
                                    .repeats = arguments.repeats,
                                    .quick = arguments.quick,
                                    .load_average_at_start = storage_bench::LoadAverage()};
  EBB_ASSIGN_OR_RETURN(std::string path, experiments::MakeScratchFolder(arguments.parent));
  const Scratch scratch(std::move(path));
  const std::string history = scratch.history();
  const uint64_t events = arguments.events > 0 ? arguments.events
                          : arguments.quick    ? kQuickEvents
                                               : kEvents;
  storage_bench::Samples samples;
  EBB_RETURN_IF_ERROR(Generate(
      history, events, [] { return Interrupted().load(); }, samples));
  fmt::print(stderr, "[history bench] opening\n");
  EBB_RETURN_IF_ERROR(MeasureOpen(history, samples));
  fmt::print(stderr, "[history bench] asking\n");
  EBB_RETURN_IF_ERROR(MeasureQueries(history, static_cast<uint64_t>(arguments.repeats), samples));
  fmt::print(stderr, "[history bench] verifying\n");
  EBB_RETURN_IF_ERROR(MeasureSizeAndVerify(history, samples));
  std::vector<const storage_bench::FigureSpec*> specs;
  for (const storage_bench::FigureSpec& spec : HistoryFigures()) specs.push_back(&spec);
  return storage_bench::Report(run, specs, samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Queries, start and size of a history of ten million events"};
  Arguments arguments;
  app.add_option("--out", arguments.out_path, "write the figures as JSON to this file");
  app.add_option("--commit", arguments.commit, "commit to name in the file");
  app.add_option("--scratch", arguments.parent, "where the history is written (some GiB)")
      ->capture_default_str();
  app.add_option("--events", arguments.events, "events to write (10,000,000)")
      ->check(CLI::Range(uint64_t{6'000}, uint64_t{1'000'000'000}));
  app.add_option("--repeats", arguments.repeats, "questions of each kind")
      ->check(CLI::Range(10, 100'000))
      ->capture_default_str();
  app.add_flag("--quick", arguments.quick, "200,000 events: to see that it works");
  CLI11_PARSE(app, argc, argv);
  CatchInterrupts();
  const absl::StatusOr<bool> all_hold = RunBench(arguments);
  if (!all_hold.ok()) {
    fmt::print(stderr, "history bench: {}\n", all_hold.status().ToString());
    return 2;
  }
  return *all_hold ? 0 : 1;
}

}  // namespace
}  // namespace ebb::history_bench

int main(int argc, char** argv) {
  try {
    return ebb::history_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "history bench: {}\n", error.what());
    return 2;
  }
}
