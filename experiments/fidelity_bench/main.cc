// Question: does the twin say of a setting what a live node says of it?
//
// usage: ebb_fidelity_bench [--settings N] [--repeats N] [--quick] [--out FILE] [--traces DIR]
// Measures live nodes on shaped devices under Sobol settings of all knobs, simulates the same cells
// with a twin fitted to this machine, and compares. Exits with 1 when a bar does not hold.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text_file.h"
#include "env/twin/calibration.h"
#include "env/twin/fit/codec_ratios.h"
#include "env/twin/fit/fit_target.h"
#include "env/twin/fit/node_costs.h"
#include "env/twin/sweep.h"
#include "env/twin/twin_environment.h"
#include "experiments/fidelity_bench/fidelity_figures.h"
#include "experiments/fidelity_bench/live_file.h"
#include "experiments/fidelity_bench/statistics.h"
#include "experiments/fidelity_bench/twin_node.h"
#include "experiments/fidelity_bench/verdict.h"
#include "experiments/storage_bench/bench_main.h"
#include "experiments/support/bench_progress.h"
#include "experiments/support/scratch.h"

namespace ebb::fidelity_bench {
namespace {

struct Arguments {
  storage_bench::BenchRun run{.bench = "fidelity", .repeats = 3};
  std::string traces = "../shared/traces";
  std::string keep_path;
  std::string reuse_path;
  std::string cells_path;
  std::vector<std::string> only;
  int settings = 32;
  bool twin_only = false;
  bool class_devices = false;
};

// Settings are the same for all workloads: every knob may move (the scrubber's rate excepted).
std::vector<env::Setting> MakeSettings(const NodeShape& shape, size_t count) {
  const env::KnobSpace space = twin::TwinKnobSpace(shape.host_memory_bytes);
  env::Setting base;
  for (size_t i = 0; i < space.size(); ++i) base.values.push_back(space[i].default_value);
  std::vector<env::Setting> settings = {base};
  for (env::Setting& one : twin::SpreadSettings(space, base, count, /*all_knobs=*/true, 5)) {
    settings.push_back(std::move(one));
  }
  return settings;
}

double OfferedBytesPerS(const Workload& workload, const RunTimes& times) {
  const double begin_ns = times.settle_seconds * 1e9;
  const double end_ns = begin_ns + times.measure_seconds * 1e9;
  double bytes = 0;
  for (double pass_ns = 0; pass_ns < end_ns; pass_ns += static_cast<double>(workload.duration_ns)) {
    for (const trace::TraceRecord& record : workload.records) {
      const double at_ns = pass_ns + static_cast<double>(record.time_ns);
      const bool moves = record.op == trace::TraceOp::kRead || record.op == trace::TraceOp::kWrite;
      if (moves && at_ns >= begin_ns && at_ns < end_ns) bytes += static_cast<double>(record.bytes);
    }
  }
  return bytes / times.measure_seconds;
}

struct Run {
  size_t workload = 0;
  size_t setting = 0;
};

// All cells once, in random order; the default twice, as everything is compared with it.
std::vector<Run> RandomOrder(size_t workloads, size_t settings, Rng& rng) {
  std::vector<Run> runs;
  for (size_t w = 0; w < workloads; ++w) {
    runs.push_back({w, 0});
    for (size_t s = 0; s < settings; ++s) runs.push_back({w, s});
  }
  for (size_t i = runs.size(); i > 1; --i) std::swap(runs[i - 1], runs[rng.Below(i)]);
  return runs;
}

void MakeCells(const std::vector<Workload>& workloads, const std::vector<env::Setting>& settings,
               LiveResults& results) {
  for (const Workload& workload : workloads) {
    WorkloadCells& cells = results.workloads.emplace_back();
    cells.name = workload.name;
    cells.recorded = workload.recorded;
    cells.offered_bytes_per_s = OfferedBytesPerS(workload, results.times);
    for (size_t s = 0; s < settings.size(); ++s) cells.cells.push_back({.setting = s});
  }
}

// A run that fails costs its own measurement only; a cell without any is left out.
absl::Status MeasureLive(const Arguments& arguments, const std::vector<Workload>& workloads,
                         const std::vector<env::Setting>& settings, LiveNode& node,
                         LiveResults& results) {
  Rng rng(99);
  experiments::BenchProgress progress(
      "fidelity", static_cast<double>(arguments.run.repeats) *
                      static_cast<double>(workloads.size() * (settings.size() + 1)));
  for (int repeat = 0; repeat < arguments.run.repeats; ++repeat) {
    for (const Run& run : RandomOrder(workloads.size(), settings.size(), rng)) {
      if (Interrupted()) return absl::CancelledError("interrupted");
      const Workload& workload = workloads[run.workload];
      progress.Begin("live runs, " + workload.name);
      absl::StatusOr<Outcome> outcome =
          node.Run(workload, twin::ToStorageSetting(settings[run.setting]), results.times,
                   1 + static_cast<uint64_t>(repeat));
      if (outcome.ok()) {
        results.workloads[run.workload].cells[run.setting].live.push_back(*std::move(outcome));
      } else {
        fmt::print(stderr, "[fidelity bench] {}, setting {}: {}\n", workload.name, run.setting,
                   outcome.status().ToString());
      }
      progress.Advance(1);
    }
    if (!arguments.keep_path.empty()) EBB_RETURN_IF_ERROR(SaveLive(arguments.keep_path, results));
  }
  progress.End();
  for (WorkloadCells& cells : results.workloads) {
    if (cells.cells.front().live.empty()) {
      return absl::InternalError(fmt::format("{}: the default setting never ran", cells.name));
    }
    std::erase_if(cells.cells, [](const Cell& cell) { return cell.live.empty(); });
  }
  return absl::OkStatus();
}

// What probes of a shaped device make of it; nothing when they do not agree with each other, as on
// a machine that is busy with something else: then its class stands for it.
absl::StatusOr<std::optional<storage::ServiceParameters>> FitShape(const std::string& model,
                                                                   double speed) {
  constexpr double kErrorMax = 0.10;
  EBB_ASSIGN_OR_RETURN(const twin::FittedDevice fitted,
                       twin::MeasureAndFit({.shape = model, .speed = speed}, {}));
  const bool use = fitted.fit.error_median <= kErrorMax;
  fmt::print(stderr, "[fidelity bench] {} x {}: fitted, error {:.1f} % in the middle{}\n", model,
             speed, 100 * fitted.fit.error_median, use ? "" : "; not used, too far off");
  if (!use) return std::nullopt;
  return fitted.fit.parameters;
}

absl::Status FitDevices(const std::vector<Workload>& workloads, LiveResults& results) {
  std::map<std::pair<std::string, double>, std::optional<storage::ServiceParameters>> known;
  const auto find = [&](const std::string& model,
                        double speed) -> absl::StatusOr<std::optional<storage::ServiceParameters>> {
    const auto [found, is_new] = known.try_emplace({model, speed});
    if (is_new) {
      EBB_ASSIGN_OR_RETURN(found->second, FitShape(model, speed));
    }
    return found->second;
  };
  for (size_t i = 0; i < workloads.size(); ++i) {
    const NodeShape& shape = workloads[i].shape;
    EBB_ASSIGN_OR_RETURN(results.models[i].cache_fitted,
                         find(shape.cache_model, shape.cache_speed));
    EBB_ASSIGN_OR_RETURN(results.models[i].capacity_fitted,
                         find(shape.capacity_model, shape.capacity_speed));
  }
  return absl::OkStatus();
}

absl::Status Fit(const Arguments& arguments, const std::vector<Workload>& workloads,
                 const std::string& scratch, LiveNode& node, LiveResults& results) {
  twin::NodeCostOptions options;
  options.metadata_dir = scratch + "/fit";
  options.quick = arguments.run.quick;
  options.on_progress = [](double share, std::string_view what) {
    fmt::print(stderr, "[fidelity bench] fitting the twin: {:.0f} %, {}\n", 100 * share, what);
  };
  EBB_ASSIGN_OR_RETURN(const twin::NodeCosts costs, twin::MeasureNodeCosts(options));
  for (const Workload& workload : workloads) {
    twin::NodeModel model;
    model.cpu = costs.cpu;
    model.metadata = costs.metadata;
    model.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    model.cpu.nbd_request = node.ClientCostNs(workload, 1);
    results.models.push_back(model);
  }
  return arguments.run.quick ? absl::OkStatus() : FitDevices(workloads, results);
}

// The middle of each latency that the twin is calibrated by.
env::WindowMetrics MiddleOf(const std::vector<Outcome>& repeats) {
  env::WindowMetrics middle = repeats.front().metrics;
  const auto take = [&](env::OpWindow env::WindowMetrics::*kind, double env::OpWindow::*value) {
    std::vector<double> values;
    for (const Outcome& outcome : repeats) values.push_back(outcome.metrics.*kind.*value);
    middle.*kind.*value = Quantile(values, 0.5);
  };
  for (const auto kind : {&env::WindowMetrics::read, &env::WindowMetrics::write}) {
    take(kind, &env::OpWindow::p50_ns);
    take(kind, &env::OpWindow::p99_ns);
  }
  return middle;
}

absl::Status Simulate(const std::vector<Workload>& workloads,
                      const std::vector<env::Setting>& settings, bool class_devices,
                      LiveResults& results) {
  for (size_t w = 0; w < workloads.size(); ++w) {
    const twin::RequestStream stream = workloads[w].Stream();
    twin::NodeModel fitted = results.models[w];
    fitted.codec = twin::MeasureCodecRatios(workloads[w].ContentSample().span());
    if (class_devices) fitted.cache_fitted = fitted.capacity_fitted = std::nullopt;
    EBB_ASSIGN_OR_RETURN(
        const twin::NodeModel model,
        twin::CalibrateCosts(
            TwinModel(fitted, workloads[w].shape),
            MiddleOf(results.workloads[w].cells.front().live),
            [&](const twin::NodeModel& tried) -> absl::StatusOr<env::WindowMetrics> {
              EBB_ASSIGN_OR_RETURN(const Outcome outcome,
                                   RunTwin(tried, stream, twin::ToStorageSetting(settings.front()),
                                           results.times, 7));
              return outcome.metrics;
            }));
    for (Cell& cell : results.workloads[w].cells) {
      EBB_ASSIGN_OR_RETURN(
          cell.twin,
          RunTwin(model, stream, twin::ToStorageSetting(settings[cell.setting]), results.times, 7));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteCells(const std::string& path, const std::vector<Workload>& workloads,
                        const std::vector<env::Setting>& settings, const LiveResults& results) {
  const env::KnobSpace space = twin::TwinKnobSpace(workloads.front().shape.host_memory_bytes);
  std::string text =
      "workload,setting,side,read_p50_us,read_p99_us,write_p50_us,write_p99_us,"
      "mb_per_s,dram,cache,fill,destaged_mb,batches,coalesced,throttle_s,cpu_s,"
      "flush_p50_us,late_s";
  for (const env::KnobSpec& knob : space.knobs()) text += "," + knob.name;
  text += "\n";
  for (const WorkloadCells& workload : results.workloads) {
    for (const Cell& cell : workload.cells) {
      const auto add = [&](const std::string& side, const Outcome& o) {
        const env::WindowMetrics& m = o.metrics;
        text += fmt::format(
            "{},{},{},{:.4g},{:.4g},{:.4g},{:.4g},{:.4g},{:.3f},{:.3f},{:.3f},{:.4g},{},{},{:.3g},"
            "{:.3g},{:.4g},{:.3g}",
            workload.name, cell.setting, side, m.read.p50_ns / 1e3, m.read.p99_ns / 1e3,
            m.write.p50_ns / 1e3, m.write.p99_ns / 1e3, o.bytes_per_s / 1e6, o.dram_share,
            o.cache_share, o.log_fill, static_cast<double>(m.destaged_bytes) / 1e6,
            o.destage_batches, o.coalesced_blocks, m.throttle_seconds, m.cpu_seconds,
            m.flush.p50_ns / 1e3, static_cast<double>(o.late_ns) / 1e9);
        for (const int64_t value : settings[cell.setting].values) text += fmt::format(",{}", value);
        text += "\n";
      };
      for (size_t i = 0; i < cell.live.size(); ++i) add(fmt::format("live{}", i), cell.live[i]);
      add("twin", cell.twin);
    }
  }
  return WriteTextFile(path, text);
}

absl::StatusOr<std::vector<Workload>> ChooseWorkloads(const Arguments& arguments, double seconds) {
  std::vector<std::string> skipped;
  EBB_ASSIGN_OR_RETURN(std::vector<Workload> workloads,
                       MakeWorkloads(arguments.traces, seconds, skipped));
  for (const std::string& one : skipped) {
    fmt::print(stderr, "[fidelity bench] skipped {} (--traces says where they are)\n", one);
  }
  if (!arguments.only.empty()) {
    std::erase_if(workloads, [&](const Workload& workload) {
      return std::find(arguments.only.begin(), arguments.only.end(), workload.name) ==
             arguments.only.end();
    });
  }
  if (workloads.empty()) return absl::InvalidArgumentError("no workload is left");
  return workloads;
}

absl::StatusOr<LiveResults> GetLive(const Arguments& arguments, std::vector<Workload>& workloads,
                                    std::vector<env::Setting>& settings) {
  LiveResults results;
  if (!arguments.reuse_path.empty()) {
    EBB_ASSIGN_OR_RETURN(results, LoadLive(arguments.reuse_path));
  } else {
    results.seconds = results.times.settle_seconds + results.times.measure_seconds + 0.4;
  }
  EBB_ASSIGN_OR_RETURN(workloads, ChooseWorkloads(arguments, results.seconds));
  if (arguments.reuse_path.empty()) {
    settings = MakeSettings(workloads.front().shape, static_cast<size_t>(arguments.settings));
    MakeCells(workloads, settings, results);
    if (arguments.twin_only) {
      results.models.resize(workloads.size());
      return results;
    }
    const uint64_t scratch_bytes = 256 * kMiB;
    EBB_ASSIGN_OR_RETURN(const auto scratch, experiments::ScratchFolder::Make(
                                                 experiments::ChooseScratchParent(scratch_bytes)));
    LiveNode node(scratch->path() + "/metadata");
    EBB_RETURN_IF_ERROR(Fit(arguments, workloads, scratch->path(), node, results));
    EBB_RETURN_IF_ERROR(MeasureLive(arguments, workloads, settings, node, results));
    return results;
  }
  // The file names its workloads; what is not there any more is left out.
  std::vector<Workload> known;
  LiveResults kept{.seconds = results.seconds, .times = results.times};
  for (size_t i = 0; i < results.workloads.size(); ++i) {
    for (Workload& workload : workloads) {
      if (workload.name != results.workloads[i].name) continue;
      known.push_back(std::move(workload));
      kept.models.push_back(results.models[i]);
      kept.workloads.push_back(std::move(results.workloads[i]));
      break;
    }
  }
  if (known.empty()) return absl::InvalidArgumentError("no workload of the file is left");
  workloads = std::move(known);
  settings = MakeSettings(workloads.front().shape, kept.workloads.front().cells.size() - 1);
  return kept;
}

absl::StatusOr<bool> RunBench(const Arguments& arguments) {
  if (arguments.twin_only && arguments.cells_path.empty()) {
    return absl::InvalidArgumentError("--twin-only needs --cells, there is no verdict");
  }
  std::vector<Workload> workloads;
  std::vector<env::Setting> settings;
  EBB_ASSIGN_OR_RETURN(LiveResults results, GetLive(arguments, workloads, settings));
  fmt::print(stderr, "[fidelity bench] simulating the same cells\n");
  EBB_RETURN_IF_ERROR(Simulate(workloads, settings, arguments.class_devices, results));
  if (!arguments.cells_path.empty()) {
    EBB_RETURN_IF_ERROR(WriteCells(arguments.cells_path, workloads, settings, results));
  }
  if (arguments.twin_only) return true;
  fmt::print("{}\n", Table(results.workloads));
  storage_bench::Samples samples;
  Judge(results.workloads, samples);
  return storage_bench::Report(arguments.run, FidelityFigures(), samples);
}

int Main(int argc, char** argv) {
  CLI::App app{"Live nodes on shaped devices against the twin fitted to them"};
  Arguments arguments;
  app.add_option("--traces", arguments.traces, "folder of the recorded traces")
      ->capture_default_str();
  app.add_option("--only", arguments.only, "only these workloads");
  CLI::Option* settings =
      app.add_option("--settings", arguments.settings, "Sobol settings besides the default")
          ->check(CLI::Range(2, 1000))
          ->capture_default_str();
  CLI::Option* repeats =
      app.add_option("--repeats", arguments.run.repeats, "live runs of each cell")
          ->check(CLI::Range(1, 100))
          ->capture_default_str();
  app.add_option("--keep-live", arguments.keep_path,
                 "write the live results to this file after every repeat; by default beside --out");
  app.add_option("--reuse-live", arguments.reuse_path,
                 "take live results and fit from such a file: only the twin runs");
  app.add_option("--cells", arguments.cells_path, "write every cell's numbers as CSV to this file");
  app.add_flag("--class-devices", arguments.class_devices,
               "the twin's devices are the classes, not what was fitted to them");
  app.add_flag("--twin-only", arguments.twin_only,
               "no live node: the cells of an unfitted twin, to choose loads by");
  app.add_flag("--quick", arguments.run.quick,
               "3 settings, 2 repeats: to see that it works, in about three minutes");
  return storage_bench::BenchMain(app, argc, argv, arguments.run, [&] {
    if (arguments.keep_path.empty() && !arguments.run.out_path.empty()) {
      arguments.keep_path = arguments.run.out_path + ".live";
    }
    if (arguments.run.quick && settings->empty()) arguments.settings = 3;
    if (arguments.run.quick && repeats->empty()) arguments.run.repeats = 2;
    // What was measured is judged no more then, and the scratch folder goes.
    CatchInterrupts();
    return RunBench(arguments);
  });
}

}  // namespace
}  // namespace ebb::fidelity_bench

int main(int argc, char** argv) { return ebb::fidelity_bench::Main(argc, argv); }
