// Question: does a history of ten million events still open and answer at once?
//
// usage: ebb_history_bench [--events N] [--repeats N] [--quick] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "experiments/history_bench/history_figures.h"
#include "experiments/history_bench/history_studies.h"
#include "experiments/storage_bench/bench_main.h"
#include "experiments/support/scratch.h"

namespace ebb::history_bench {
namespace {

constexpr uint64_t kEvents = 10'000'000;
constexpr uint64_t kQuickEvents = 200'000;

struct Arguments {
  storage_bench::BenchRun run{.bench = "history", .repeats = 200};
  std::string parent = "/tmp";
  uint64_t events = 0;
};

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  EBB_ASSIGN_OR_RETURN(const auto scratch, experiments::ScratchFolder::Make(arguments.parent));
  const std::string history = scratch->path() + "/history";
  const uint64_t events = arguments.events > 0  ? arguments.events
                          : arguments.run.quick ? kQuickEvents
                                                : kEvents;
  storage_bench::Samples samples;
  EBB_RETURN_IF_ERROR(Generate(
      history, events, [] { return Interrupted().load(); }, samples));
  fmt::print(stderr, "[history bench] opening\n");
  EBB_RETURN_IF_ERROR(MeasureOpen(history, samples));
  fmt::print(stderr, "[history bench] asking\n");
  EBB_RETURN_IF_ERROR(
      MeasureQueries(history, static_cast<uint64_t>(arguments.run.repeats), samples));
  fmt::print(stderr, "[history bench] verifying\n");
  EBB_RETURN_IF_ERROR(MeasureSizeAndVerify(history, samples));
  return storage_bench::Report(arguments.run, HistoryFigures(), samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Queries, start and size of a history of ten million events"};
  Arguments arguments;
  app.add_option("--scratch", arguments.parent, "where the history is written (some GiB)")
      ->capture_default_str();
  app.add_option("--events", arguments.events, "events to write (10,000,000)")
      ->check(CLI::Range(uint64_t{6'000}, uint64_t{1'000'000'000}));
  app.add_option("--repeats", arguments.run.repeats, "questions of each kind")
      ->check(CLI::Range(10, 100'000))
      ->capture_default_str();
  app.add_flag("--quick", arguments.run.quick, "200,000 events: to see that it works");
  return storage_bench::BenchMain(app, argc, argv, arguments.run, [&] {
    CatchInterrupts();
    return RunBench(arguments);
  });
}

}  // namespace
}  // namespace ebb::history_bench

int main(int argc, char** argv) { return ebb::history_bench::Main(argc, argv); }
