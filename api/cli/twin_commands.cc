#include "api/cli/twin_commands.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "api/cli/sweep_picture.h"
#include "api/cli/synth_options.h"
#include "api/cli/table.h"
#include "api/cli/twin_fit_command.h"
#include "api/cli/twin_node.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "base/text_file.h"
#include "base/units.h"
#include "engine/goal/goal.h"
#include "env/twin/model_file.h"
#include "env/twin/sweep.h"
#include "env/twin/trace_load.h"
#include "env/twin/twin_environment.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/knobs/presets.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "The load is a trace of any format that `ebb trace` knows, or synthesised:\n"
    "  ebb twin run --trace web.csv.zst --format msr --cache-size 2G\n"
    "  ebb twin run --rate 10000 --read 0.7 --working-set 4G --set destage_watermark=70\n"
    "A sweep tries many settings on all cores and says which were best:\n"
    "  ebb twin sweep --trace web.ebbt --count 1000 --sample 10 --csv sweep.csv --svg sweep.svg\n"
    "Or those of a node that runs: its last minutes, as it is, beside what it measures itself,\n"
    "and beside what its twin would do with other knobs:\n"
    "  ebb twin run --node /tmp/alpha/control.sock --minutes 2 --set destage_watermark=70\n"
    "  ebb twin sweep --node /tmp/alpha/control.sock --count 1000 --goal read\n"
    "--sample 10 simulates a tenth of the load on a tenth of the node: ten times faster, and the\n"
    "index moves by about 2 % (more where p50 stands between two kinds of answers).\n"
    "Devices and costs are those of named classes and of our bench machine, unless `ebb twin fit`\n"
    "measured yours: --model node.toml";

// What both commands take.
struct TwinOrder {
  TwinOrder() {
    node.host_memory_bytes = 16 * kGiB;
    load.begin.ops_per_s = 10'000;
    load.begin.working_set_bytes = 4 * kGiB;
    load.begin.zipf_skew = 0.9;
    load.begin.compressible_share = 0.6;
  }

  twin::NodeModel node;
  WatchOrder watch;  // instead of `node` and a load
  SynthOrder load;
  twin::TraceLoadOptions trace_options;
  uint64_t capacity_bytes = 0;  // 0: not told
  std::string trace;
  std::string preset;
  std::string model_path;
  std::vector<std::string> knobs;
  // Options that win over a model's file when they are used.
  struct Told {
    CLI::Option* cores = nullptr;
    CLI::Option* workers = nullptr;
    CLI::Option* cache_shape = nullptr;
    CLI::Option* capacity_shape = nullptr;
  } told;
  int clients = 0;
  uint32_t sample = 1;
  uint64_t seed = 1;
};

struct RunOrder : TwinOrder {
  int windows = 30;
  double window_seconds = 1;
};

struct SweepOrder : TwinOrder {
  size_t count = 1000;
  bool all_knobs = false;
  int threads = 0;
  twin::RunLength length;
  std::string goal = "balanced";
  std::string csv_path;
  std::string svg_path;
  size_t top = 10;
};

void AddBytes(CLI::App* command, const std::string& name, uint64_t& target, const char* help) {
  command
      ->add_option_function<std::string>(
          name,
          [&target](const std::string& text) {
            const auto bytes = ParseBytes(text);
            if (!bytes.ok()) throw CLI::ValidationError(std::string(bytes.status().message()));
            target = *bytes;
          },
          help)
      ->default_str(target == 0 ? "" : FormatBytes(target));
}

void AddNodeOptions(CLI::App* command, TwinOrder& order) {
  twin::NodeModel& node = order.node;
  const std::vector<std::string> shapes = storage::ServiceModelNames();
  AddBytes(command, "--volume-size", node.volume_bytes, "size of the volume");
  AddBytes(command, "--cache-size", node.cache_bytes, "size of the cache device");
  AddBytes(command, "--capacity-size", order.capacity_bytes,
           "size of each capacity device; for a trace as much as its volume needs");
  command->add_option("--capacity-count", node.capacity_count, "capacity devices")
      ->capture_default_str();
  order.told.cache_shape =
      command->add_option("--cache-shape", node.cache_device, "the cache device's class")
          ->check(CLI::IsMember(shapes))
          ->capture_default_str();
  order.told.capacity_shape =
      command->add_option("--capacity-shape", node.capacity_device, "the capacity devices' class")
          ->check(CLI::IsMember(shapes))
          ->capture_default_str();
  AddBytes(command, "--memory", node.host_memory_bytes,
           "of the host: the read cache takes at most a tenth");
  order.told.cores =
      command->add_option("--cores", node.cores, "processor cores")->capture_default_str();
  order.told.workers =
      command->add_option("--workers", node.workers, "requests under way in the front end at once")
          ->capture_default_str();
  command
      ->add_option("--model", order.model_path,
                   "devices and costs as `ebb twin fit` measured them; other options win")
      ->check(CLI::ExistingFile);
  command->add_flag("--empty{false}", node.prefilled, "nothing was written before");
  command->add_option("--preset", order.preset, "begin with the preset of this device class")
      ->check(CLI::IsMember({"disk", "sata-ssd", "qlc-ssd", "nvme", "unknown"}));
  command->add_option("--set", order.knobs, "knob=value, any number of times");
}

void AddLoadOptions(CLI::App* command, TwinOrder& order) {
  command->add_option("--trace", order.trace, "a recorded load")->group("Load");
  command->add_option("--format", order.trace_options.format, "its format, if that is not certain")
      ->group("Load");
  command->add_option("--speed", order.trace_options.speed, "its times pass so many times faster")
      ->group("Load");
  command->add_option("--records", order.trace_options.records_max, "only its first so many")
      ->group("Load");
  AddSynthOptions(command, "--load-preset", order.load);
  command->footer("Presets of loads:\n" + SynthPresetHelp());
  command->add_option("--clients", order.clients,
                      "so many clients wait for their answers (else: by time)");
  command->add_option("--sample", order.sample, "simulate one part in so many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", order.seed, "same seed, same numbers")->capture_default_str();
  AddWatchOptions(command, order.watch, {"--set", "--clients", "--sample", "--seed", "--model"});
}

absl::StatusOr<twin::RequestStream> MakeLoad(TwinOrder& order) {
  if (!order.trace.empty()) {
    EBB_ASSIGN_OR_RETURN(const twin::RequestStream load,
                         LoadTrace(order.trace, order.trace_options, order.clients == 0));
    order.node.volume_bytes = load.volume_bytes();
    return load.Sample(order.sample, order.seed);
  }
  EBB_ASSIGN_OR_RETURN(const env::SynthOptions options, ToSynthOptions(order.load, order.seed));
  EBB_ASSIGN_OR_RETURN(const twin::RequestStream load,
                       twin::SynthesiseLoad(options, order.node.volume_bytes));
  return load.Sample(order.sample, order.seed);
}

absl::Status SetKnob(const std::string& text, storage::Setting& setting) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const storage::KnobSpec* spec = storage::FindKnob(name);
  const std::string_view near = storage::NearestKnobName(name);
  if (equals == std::string::npos || spec == nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "--set {}: {}{}", text,
        spec == nullptr ? fmt::format("there is no knob '{}'", name) : "knob=value was wanted",
        spec == nullptr && !near.empty() ? fmt::format("; did you mean '{}'?", near) : ""));
  }
  const std::string value = text.substr(equals + 1);
  if (spec->kind == storage::KnobKind::kChoice) {
    const auto choice = storage::ParseChoice(*spec, value);
    if (!choice) return absl::InvalidArgumentError(fmt::format("{} has no choice {}", name, value));
    setting.Set(spec->id, *choice);
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(const uint64_t number, ParseBytes(value));
  setting.Set(spec->id, static_cast<int64_t>(number));
  return absl::OkStatus();
}

absl::Status SetKnobs(const std::vector<std::string>& knobs, storage::Setting& setting) {
  for (const std::string& knob : knobs) EBB_RETURN_IF_ERROR(SetKnob(knob, setting));
  return absl::OkStatus();
}

// Room for a volume and as much again as compaction and rewriting need.
uint64_t CapacityFor(const twin::NodeModel& node) {
  const uint64_t share = node.volume_bytes / static_cast<uint64_t>(node.capacity_count);
  return std::max(share + share / 2, kGiB);
}

// The file's model, and what was said besides on the command line.
absl::Status ReadModel(TwinOrder& order) {
  if (order.model_path.empty()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(twin::NodeModel node, twin::LoadNodeModel(order.model_path, order.node));
  const auto& told = order.told;
  if (told.cores->count() > 0) node.cores = order.node.cores;
  if (told.workers->count() > 0) node.workers = order.node.workers;
  if (told.cache_shape->count() > 0) node.cache_fitted.reset();
  if (told.capacity_shape->count() > 0) node.capacity_fitted.reset();
  order.node = node;
  return absl::OkStatus();
}

absl::StatusOr<twin::SimulatorConfig> MakeConfig(TwinOrder& order) {
  EBB_RETURN_IF_ERROR(ReadModel(order));
  if (order.node.capacity_count < 1) {
    return absl::InvalidArgumentError("a node has capacity devices");
  }
  order.node.capacity_bytes =
      order.capacity_bytes > 0 ? order.capacity_bytes : CapacityFor(order.node);
  twin::SimulatorConfig config{
      .node = order.node,
      .setting = order.preset.empty() ? storage::Setting() : storage::PresetSetting(order.preset),
      .seed = order.seed,
      .closed_loop_clients = order.clients};
  EBB_RETURN_IF_ERROR(SetKnobs(order.knobs, config.setting));
  return config;
}

// As the node is, with what `ebb twin fit` measured of it.
absl::StatusOr<twin::SimulatorConfig> ConfigOf(const twin::LiveNode& live, const TwinOrder& order) {
  twin::SimulatorConfig config{
      .node = live.model,
      .setting = live.setting,
      .seed = order.seed,
      .closed_loop_clients = order.clients > 0 ? order.clients : live.closed_loop_clients};
  if (!order.model_path.empty()) {
    EBB_ASSIGN_OR_RETURN(config.node, twin::LoadNodeModel(order.model_path, live.model));
  }
  return config;
}

// The node beside its twin; with knobs told, beside what its twin would do with those as well.
absl::Status RunNodesTwin(Session& session, TwinOrder& order) {
  EBB_ASSIGN_OR_RETURN(const twin::LiveNode live, Watch(session, order.watch));
  const twin::RequestStream load = live.load.Sample(order.sample, order.seed);
  EBB_ASSIGN_OR_RETURN(twin::SimulatorConfig config, ConfigOf(live, order));
  EBB_ASSIGN_OR_RETURN(twin::WindowResult as_it_is, PredictNode(config, load, live));
  Comparison comparison{.live = live, .as_it_is = std::move(as_it_is)};
  if (!order.knobs.empty()) {
    EBB_RETURN_IF_ERROR(SetKnobs(order.knobs, config.setting));
    EBB_ASSIGN_OR_RETURN(comparison.changed, PredictNode(config, load, live));
  }
  if (session.format == Format::kJson) {
    session.Print(ToJson(comparison).dump(2) + "\n");
  } else {
    PrintComparison(session, comparison);
  }
  return absl::OkStatus();
}

absl::Status RunTwin(Session& session, RunOrder order) {
  if (!order.watch.socket.empty()) return RunNodesTwin(session, order);
  EBB_ASSIGN_OR_RETURN(const twin::RequestStream load, MakeLoad(order));
  EBB_ASSIGN_OR_RETURN(const twin::SimulatorConfig config, MakeConfig(order));
  EBB_ASSIGN_OR_RETURN(const auto simulator, twin::Simulator::Make(config, load));
  simulator->WarmUp(2);
  Table table({"second", "reads/s", "read p50", "p99", "writes/s", "write p50", "p99", "fill",
               "hits", "destage", "held back"});
  Json windows = Json::array();
  const auto time = [](double ns) { return FormatDurationNs(static_cast<uint64_t>(ns)); };
  for (int i = 0; i < order.windows; ++i) {
    const twin::WindowResult window = simulator->RunWindow(order.window_seconds);
    const env::WindowMetrics& m = window.metrics;
    windows.push_back(ToJson(window));
    table.Add(
        {fmt::format("{:.4g}", (i + 1) * order.window_seconds),
         fmt::format("{:.0f}", static_cast<double>(m.read.ops) / m.seconds), time(m.read.p50_ns),
         time(m.read.p99_ns), fmt::format("{:.0f}", static_cast<double>(m.write.ops) / m.seconds),
         time(m.write.p50_ns), time(m.write.p99_ns), fmt::format("{:.0f} %", 100 * window.log_fill),
         fmt::format("{:.1f} %", 100 * m.read_hit_share),
         fmt::format("{:.1f} MB/s", static_cast<double>(m.destaged_bytes) / m.seconds / 1e6),
         fmt::format("{:.2f} s", m.throttle_seconds)});
  }
  if (session.format == Format::kJson) {
    session.Print(Json{{"windows", std::move(windows)}}.dump(2) + "\n");
  } else {
    table.Print(session);
  }
  return absl::OkStatus();
}

// Progress on stderr: a line that is written over on a terminal, else one every tenth.
class Progress {
 public:
  explicit Progress(size_t total) : total_(total), begin_ns_(RealClock().MonotonicNs()) {}
  void Show(size_t done) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const size_t tenth = std::max<size_t>(total_ / 10, 1);
    if (terminal || done % tenth == 0) {
      const double spent_ns = static_cast<double>(RealClock().MonotonicNs() - begin_ns_);
      const double left_ns =
          spent_ns / static_cast<double>(done) * static_cast<double>(total_ - done);
      fmt::print(stderr, "{}{} of {} settings, about {} left{}", terminal ? "\r\033[K" : "", done,
                 total_, FormatDurationNs(static_cast<uint64_t>(left_ns)), terminal ? "" : "\n");
      std::fflush(stderr);
    }
    if (terminal && done == total_) fmt::print(stderr, "\r\033[K");
  }

 private:
  const size_t total_;
  const uint64_t begin_ns_;
};

std::string SweepCsv(const env::KnobSpace& space, std::span<const twin::SweepResult> results,
                     std::span<const double> indexes) {
  std::string csv = "index";
  for (const env::KnobSpec& knob : space.knobs()) csv += "," + knob.name;
  csv +=
      ",reads_per_s,read_p50_us,read_p99_us,writes_per_s,write_p50_us,write_p99_us,log_fill,"
      "read_hit_share,destaged_mb_per_s,throttle_seconds,cpu_seconds\n";
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].status.ok()) continue;
    csv += fmt::format("{:.4g}", indexes[i]);
    for (const int64_t value : results[i].setting.values) csv += fmt::format(",{}", value);
    const env::WindowMetrics& m = results[i].window.metrics;
    csv += fmt::format(
        ",{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.4g},{:.4g},{:.4g},{:.4g},{:.4g}\n",
        static_cast<double>(m.read.ops) / m.seconds, m.read.p50_ns / 1e3, m.read.p99_ns / 1e3,
        static_cast<double>(m.write.ops) / m.seconds, m.write.p50_ns / 1e3, m.write.p99_ns / 1e3,
        results[i].window.log_fill, m.read_hit_share,
        static_cast<double>(m.destaged_bytes) / m.seconds / 1e6, m.throttle_seconds, m.cpu_seconds);
  }
  return csv;
}

std::string SettingText(const env::KnobSpace& space, const env::Setting& base,
                        const env::Setting& setting) {
  std::string text;
  for (const env::KnobChange& change : Diff(space, base, setting)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", change.knob,
                        space.FormatValue(*space.Find(change.knob), change.to));
  }
  return text.empty() ? "the base setting" : text;
}

void PrintBest(const Session& session, const env::KnobSpace& space, const env::Setting& base,
               std::span<const twin::SweepResult> results, std::span<const double> indexes,
               size_t top, Json whole) {
  std::vector<size_t> order;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].status.ok()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return indexes[a] > indexes[b]; });
  order.resize(std::min(order.size(), top));
  Json json = Json::array();
  Table table({"index", "setting"});
  for (const size_t i : order) {
    json.push_back({{"index", indexes[i]},
                    {"setting", SettingText(space, base, results[i].setting)},
                    {"window", ToJson(results[i].window)}});
    table.Add({fmt::format("{:.1f}", indexes[i]), SettingText(space, base, results[i].setting)});
  }
  if (session.format == Format::kJson) {
    whole["best"] = std::move(json);
    session.Print(whole.dump(2) + "\n");
  } else {
    table.Print(session);
  }
}

// What a sweep is about: told, or a node that runs.
struct Subject {
  std::optional<twin::LiveNode> live;
  std::optional<twin::WindowResult> as_it_is;  // of the live node's twin
  twin::RequestStream load{0};
  twin::SimulatorConfig config;
};

absl::StatusOr<Subject> SubjectOf(Session& session, TwinOrder& order) {
  Subject subject;
  if (order.watch.socket.empty()) {
    EBB_ASSIGN_OR_RETURN(subject.load, MakeLoad(order));
    EBB_ASSIGN_OR_RETURN(subject.config, MakeConfig(order));
    return subject;
  }
  EBB_ASSIGN_OR_RETURN(subject.live, Watch(session, order.watch));
  subject.load = subject.live->load.Sample(order.sample, order.seed);
  EBB_ASSIGN_OR_RETURN(subject.config, ConfigOf(*subject.live, order));
  EBB_ASSIGN_OR_RETURN(subject.as_it_is, PredictNode(subject.config, subject.load, *subject.live));
  EBB_ASSIGN_OR_RETURN(subject.config.node,
                       CalibratedNode(session, subject.config, subject.load, *subject.live));
  EBB_RETURN_IF_ERROR(SetKnobs(order.knobs, subject.config.setting));
  return subject;
}

absl::Status RunSweepCommand(Session& session, SweepOrder order) {
  EBB_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(session, order));
  const auto& [live, as_it_is, load, config] = subject;
  const env::KnobSpace space = twin::TwinKnobSpace(config.node.host_memory_bytes);
  const env::Setting base = twin::ToEnvSetting(config.setting);
  // The base setting first: what the others are measured against.
  std::vector<env::Setting> settings = {base};
  for (env::Setting& one :
       twin::SpreadSettings(space, base, order.count, order.all_knobs, order.seed)) {
    settings.push_back(std::move(one));
  }
  const int threads = order.threads > 0
                          ? order.threads
                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const std::atomic<bool>& stop_asked = CatchInterrupts();
  Progress progress(settings.size());
  const std::vector<twin::SweepResult> results =
      twin::RunSweep(config, settings, load, order.length, threads, [&](size_t done) {
        progress.Show(done);
        return !stop_asked;
      });
  EBB_RETURN_IF_ERROR(results.front().status);
  const agents::GoalKind goal = order.goal == "read"    ? agents::GoalKind::kRead
                                : order.goal == "write" ? agents::GoalKind::kWrite
                                                        : agents::GoalKind::kBalanced;
  std::vector<double> indexes;
  std::vector<SweepPoint> points;
  for (const twin::SweepResult& result : results) {
    indexes.push_back(100 * std::exp(engine::LogIndexAgainst(goal, result.window.metrics,
                                                             results.front().window.metrics)));
    if (result.status.ok()) points.push_back({result.setting, indexes.back()});
  }
  if (!order.csv_path.empty()) {
    EBB_RETURN_IF_ERROR(WriteTextFile(order.csv_path, SweepCsv(space, results, indexes)));
  }
  if (!order.svg_path.empty()) {
    const std::string title =
        fmt::format("{} settings, goal {}: index against the base setting (100)", points.size() - 1,
                    order.goal);
    EBB_RETURN_IF_ERROR(WriteTextFile(order.svg_path, SweepPicture(space, points, title)));
  }
  Json json = Json::object();
  if (live && session.format == Format::kJson) {
    json["comparison"] = ToJson({.live = *live, .as_it_is = *as_it_is});
  } else if (live && session.format == Format::kTable) {
    PrintComparison(session, {.live = *live, .as_it_is = *as_it_is});
    session.Print("\n");
  }
  PrintBest(session, space, base, results, indexes, order.top, std::move(json));
  return stop_asked ? absl::CancelledError(fmt::format("interrupted after {} of {} settings",
                                                       points.size(), settings.size()))
                    : absl::OkStatus();
}

void AddRun(CLI::App& twin, Session& session) {
  auto order = std::make_shared<RunOrder>();
  CLI::App* run = twin.add_subcommand("run", "a simulated node under a load, window by window");
  AddNodeOptions(run, *order);
  AddLoadOptions(run, *order);
  run->add_option("--windows", order->windows, "windows to simulate")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  run->add_option("--window", order->window_seconds, "seconds of a window")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  run->callback([&session, order] {
    session.chosen = [order](Session& chosen) { return RunTwin(chosen, *order); };
  });
}

void AddSweep(CLI::App& twin, Session& session) {
  auto order = std::make_shared<SweepOrder>();
  CLI::App* sweep =
      twin.add_subcommand("sweep", "many settings under one load, and which were best");
  AddNodeOptions(sweep, *order);
  AddLoadOptions(sweep, *order);
  sweep->add_option("--count", order->count, "settings, evenly spread")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  sweep->add_flag("--all-knobs", order->all_knobs, "the operator's knobs as well");
  sweep->add_option("--threads", order->threads, "default: all cores");
  sweep->add_option("--settle", order->length.settle_seconds, "seconds before measuring")
      ->capture_default_str();
  sweep->add_option("--measure", order->length.measure_seconds, "seconds that are measured")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  sweep->add_option("--goal", order->goal, "read, write or balanced")
      ->check(CLI::IsMember({"read", "write", "balanced"}))
      ->capture_default_str();
  sweep->add_option("--csv", order->csv_path, "every setting and what it gave, to this file");
  sweep->add_option("--svg", order->svg_path, "a picture: the index over each knob");
  sweep->add_option("--top", order->top, "best settings to print")->capture_default_str();
  sweep->callback([&session, order] {
    session.chosen = [order](Session& chosen) { return RunSweepCommand(chosen, *order); };
  });
}

}  // namespace

void AddTwinCommands(CLI::App& app, Session& session) {
  CLI::App* twin = app.add_subcommand("twin", "simulate a node: what would a setting do?");
  twin->require_subcommand(1);
  twin->footer(kFooter);
  AddRun(*twin, session);
  AddSweep(*twin, session);
  AddTwinFitCommand(*twin, session);
}

}  // namespace ebb::cli
