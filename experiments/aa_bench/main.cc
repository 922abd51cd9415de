// Question: how often does Ebb keep a change that does nothing, on a live node under real load?
//
// usage: ebb_aa_bench [--trials N] [--window-ms MS] [--goal GOAL] [--out FILE]
// Prints every figure with its bar and writes them as JSON. Exits with 1 when a bar does not hold.
#include <atomic>
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/units.h"
#include "env/node/node_environment.h"
#include "experiments/aa_bench/aa_figures.h"
#include "experiments/aa_bench/aa_study.h"
#include "experiments/aa_bench/live_load.h"
#include "experiments/storage_bench/bench_main.h"
#include "experiments/support/bench_progress.h"

namespace ebb::aa_bench {
namespace {

// How often the load is looked after: a look costs the node a call.
constexpr uint64_t kWindowsPerLook = 50;

struct Arguments {
  storage_bench::BenchRun run{.bench = "aa"};
  std::string goal_word = "balanced";
  uint32_t trials = 300;
  uint32_t window_ms = 150;
  demo::Options node;
};

absl::StatusOr<AaResult> RunLive(const Arguments& arguments) {
  // What was found so far is told then.
  const std::atomic<bool>& stop_requested = CatchInterrupts();
  fmt::print(stderr, "[aa bench] starting a node, filling it, and fio until it is steady\n");
  EBB_ASSIGN_OR_RETURN(const auto load, LiveLoad::Start(arguments.node, stop_requested));
  EBB_ASSIGN_OR_RETURN(const auto history, engine::OpenHistory(load->scratch() + "/history", {}));
  const env::NodeEnvironmentConfig config{.socket_path = load->control_socket(),
                                          .window_ns = arguments.window_ms * kNsPerMs};
  AaOptions options;
  options.trials = arguments.trials;
  options.goal = *engine::ParseGoal(arguments.goal_word);
  options.sham = LiveLoad::Sham();
  experiments::BenchProgress progress("aa", arguments.trials);
  uint64_t told = 0;
  absl::Status fault;
  std::atomic<bool> stop{false};
  auto result = RunAaStudy(
      options, RealClock(), *history,
      [&config](const std::string&) -> absl::StatusOr<std::unique_ptr<env::Environment>> {
        EBB_ASSIGN_OR_RETURN(auto node, env::NodeEnvironment::Connect(config, RealClock()));
        return std::unique_ptr<env::Environment>(std::move(node));
      },
      stop,
      [&](uint64_t done, const engine::NodeStatus& status) {
        const auto kept = status.totals.changes[static_cast<size_t>(engine::Verdict::kKeep)];
        progress.Begin(
            fmt::format("{} of {} trials, {} kept, {}", done, arguments.trials, kept, status.why));
        progress.Advance(static_cast<double>(done - told));
        told = done;
        if (status.windows % kWindowsPerLook == 0) fault.Update(load->CheckAlive());
        stop = stop_requested.load() || !fault.ok();
      });
  progress.End();
  EBB_RETURN_IF_ERROR(fault);
  return result;
}

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  EBB_ASSIGN_OR_RETURN(const AaResult result, RunLive(arguments));
  for (const auto& [reason, count] : result.void_trials) {
    fmt::print("{} trials ended void: {}\n", count, reason);
  }
  storage_bench::Samples samples;
  AddSamples(result, samples);
  samples.Add("window_ms", arguments.window_ms);
  return storage_bench::Report(arguments.run, AaFigures(), samples);
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Trials of nothing on a live node: how often one is kept, and where the index stays"};
  Arguments arguments;
  app.add_option("--trials", arguments.trials, "trials with a verdict")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--window-ms", arguments.window_ms, "length of a window")
      ->check(CLI::Range(50, 10'000))
      ->capture_default_str();
  app.add_option("--goal", arguments.goal_word, "read, write or balanced")
      ->check(CLI::IsMember({"read", "write", "balanced"}))
      ->capture_default_str();
  app.add_option("--scratch", arguments.node.scratch_parent,
                 "folder for the scratch folder (default: in memory when there is room, else /tmp)")
      ->check(CLI::ExistingDirectory);
  return storage_bench::BenchMain(app, argc, argv, arguments.run, [&] {
    arguments.run.quick = arguments.trials < 300;
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
    arguments.node.bin_dir = own.parent_path();
    arguments.node.plugin_path = own.parent_path().parent_path() / "lib" / "nbdkit-ebb-plugin.so";
    return RunBench(arguments);
  });
}

}  // namespace
}  // namespace ebb::aa_bench

int main(int argc, char** argv) { return ebb::aa_bench::Main(argc, argv); }
