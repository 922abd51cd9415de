#include "api/cli/trace_commands.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "api/cli/progress.h"
#include "api/cli/synth_options.h"
#include "api/cli/table.h"
#include "api/cli/trace_record_command.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "base/units.h"
#include "env/trace/nbd_target.h"
#include "env/trace/node_target.h"
#include "env/trace/profile_report.h"
#include "env/trace/replayer.h"
#include "env/trace/trace_profile.h"
#include "env/trace/trace_sink.h"
#include "env/trace/trace_source.h"
#include "fmt/format.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/node_open.h"

namespace ebb::cli {
namespace {

constexpr const char* kTraceFooter =
    "What is in a trace, whoever recorded it ('ebb trace formats' lists what can be read):\n"
    "  ebb trace info web.ebbt\n"
    "  ebb trace info --format msr hm_1.csv.gz --json\n"
    "For Ebb, or for fio:\n"
    "  ebb trace convert --format spc Financial1.spc.zst financial.ebbt\n"
    "  ebb trace convert financial.ebbt financial.iolog\n"
    "What a node is asked right now, for ten minutes:\n"
    "  ebb trace record --dir /tmp/alpha --for 10min alpha.ebbt\n"
    "A load that nobody recorded:\n"
    "  ebb trace synth --preset iometer-database --zipf 0.9 --duration 5min db.ebbt\n"
    "Onto a volume, whose data are lost:\n"
    "  ebb trace replay db.ebbt --uri 'nbd+unix:///?socket=/tmp/alpha/nbd.sock'\n"
    "Onto a node that is stopped, in this process and without NBD:\n"
    "  ebb trace replay db.ebbt --dir /tmp/alpha --closed-loop --depth 16";

// Which trace, and how to read it.
struct Input {
  std::string path;
  std::string format;
  double broken_percent_max = 1;
  bool wait_is_ms = false;

  env::TraceOptions Reading() const {
    return {.broken_share_max = broken_percent_max / 100,
            .iolog_wait_is_ms_since_start = wait_is_ms};
  }
  absl::StatusOr<std::unique_ptr<env::TraceSource>> Open() const {
    return env::OpenTrace(path, format, Reading());
  }
};

void AddInput(CLI::App* command, Input& input) {
  command->add_option("trace", input.path, "the trace, also compressed; - is the standard input")
      ->required();
  command->add_option("--format", input.format,
                      "its format, where its first bytes do not make that certain");
  command
      ->add_option("--broken-max", input.broken_percent_max,
                   "percent of broken entries put up with (1)")
      ->check(CLI::Range(0.0, 100.0));
  command->add_flag("--wait-ms", input.wait_is_ms,
                    "fio iolog 2: 'wait' is milliseconds since the start, as fio's code takes it");
}

void ShowProgress(Progress& progress, const env::TraceSource& source) {
  progress.Show(source.progress(), fmt::format("{} requests", source.counts().records));
}

absl::Status Info(Session& session, const Input& input) {
  EBB_ASSIGN_OR_RETURN(const auto source, input.Open());
  absl::StatusOr<env::TraceProfile> profile;
  {
    Progress progress;
    profile = env::ProfileTrace(
        *source, [&progress](const env::TraceSource& s) { ShowProgress(progress, s); });
  }
  EBB_RETURN_IF_ERROR(profile.status());
  session.Print(session.format == Format::kJson ? env::ProfileJson(*profile, *source)
                                                : env::ProfileText(*profile, *source));
  return absl::OkStatus();
}

struct Output {
  std::string path;
  std::string format;
  std::string file_name = "ebb";

  // By the name's end unless told.
  std::string Format() const {
    if (!format.empty()) return format;
    return path.ends_with(".iolog") ? "iolog" : "ebbt";
  }
};

void AddOutput(CLI::App* command, Output& output) {
  command->add_option("output-file", output.path, "the file to write")->required();
  command->add_option("--to", output.format, "ebbt, or iolog (fio, version 3)")
      ->check(CLI::IsMember({"ebbt", "iolog"}));
  command->add_option("--file-name", output.file_name,
                      "iolog: the file that fio shall work on (ebb)");
}

// Copies `source` into `output` and says what came of it.
absl::Status Write(Session& session, env::TraceSource& source, const Output& output,
                   const std::string& note) {
  EBB_ASSIGN_OR_RETURN(const auto sink,
                       env::OpenTraceSink(output.path, output.Format(),
                                          {.note = note,
                                           .volume_bytes = source.traits().volume_bytes,
                                           .file_name = output.file_name}));
  {
    Progress progress;
    EBB_RETURN_IF_ERROR(env::CopyTrace(
        source, *sink, [&progress](const env::TraceSource& s) { ShowProgress(progress, s); }));
  }
  const env::SinkCounts& counts = sink->counts();
  session.Note(
      fmt::format("{} requests; {} cut, {} without bytes left out, {} changed to what {} "
                  "can hold; {} broken entries skipped; a device of {} bytes is needed",
                  counts.records, counts.cut, counts.left_out, counts.changed, output.Format(),
                  source.counts().broken, counts.needed_bytes));
  if (!source.warning().empty()) session.Note(source.warning());
  return absl::OkStatus();
}

absl::Status Convert(Session& session, const Input& input, const Output& output) {
  EBB_ASSIGN_OR_RETURN(const auto source, input.Open());
  return Write(session, *source, output, fmt::format("converted from {}", source->traits().format));
}

struct SynthCommand {
  Output output;
  SynthOrder load;
  uint64_t seed = 1;
};

absl::Status Synth(Session& session, const SynthCommand& command) {
  EBB_ASSIGN_OR_RETURN(const env::SynthOptions options, ToSynthOptions(command.load, command.seed));
  EBB_ASSIGN_OR_RETURN(const auto source, env::MakeSynthSource(options));
  const std::string& preset = command.load.preset;
  return Write(
      session, *source, command.output,
      fmt::format("synthesised{}{}, seed {}", preset.empty() ? "" : " as ", preset, command.seed));
}

struct ReplayOrder {
  Input input;
  std::string uri;
  std::string dir;
  std::string config;
  std::string duration;
  bool closed_loop = false;
  env::ReplayOptions options;
};

absl::StatusOr<env::ReplayReport> ReplayOnto(env::BlockTarget& target, ReplayOrder& order) {
  Progress progress;
  // A replay that is interrupted is reported, and a node closed in order.
  order.options.stop = &CatchInterrupts();
  order.options.on_progress = [&progress](double share, uint64_t requests) {
    progress.Show(share, fmt::format("{} requests", requests));
  };
  return env::ReplayTrace(order.input.path, target, order.options);
}

// In this process. The node must be there already, and stopped: the first to open it locks it.
absl::StatusOr<env::ReplayReport> ReplayOntoNode(ReplayOrder& order) {
  EBB_ASSIGN_OR_RETURN(
      const storage::NodeConfig config,
      storage::LoadNodeConfig(order.dir.empty() ? order.config : order.dir + "/node.toml"));
  EBB_ASSIGN_OR_RETURN(const auto node,
                       storage::OpenNode(config, {.on_stop = [] { Interrupted() = true; },
                                                  .observer = nullptr,
                                                  .recovery_progress = nullptr,
                                                  .may_make = false}));
  absl::StatusOr<env::ReplayReport> report;
  {
    env::NodeTarget target(*node, config.nbd.threads);
    report = ReplayOnto(target, order);
  }
  EBB_RETURN_IF_ERROR(Annotate(node->Close(), "closing the node"));
  return report;
}

absl::Status Replay(Session& session, ReplayOrder order) {
  if (!order.duration.empty()) {
    EBB_ASSIGN_OR_RETURN(order.options.duration_ns, ParseDurationNs(order.duration));
  }
  if (order.closed_loop) order.options.pace = env::ReplayOptions::Pace::kClosedLoop;
  order.options.format = order.input.format;
  order.options.reading = order.input.Reading();
  absl::StatusOr<env::ReplayReport> report;
  if (!order.uri.empty()) {
    EBB_ASSIGN_OR_RETURN(const auto target, env::NbdTarget::Connect(order.uri));
    report = ReplayOnto(*target, order);
  } else if (order.dir.empty() && order.config.empty()) {
    return absl::InvalidArgumentError("say onto what: --uri URI, --dir DIR or --config FILE");
  } else {
    report = ReplayOntoNode(order);
  }
  EBB_RETURN_IF_ERROR(report.status());
  session.Print(report->ToText());
  if (report->errors() > 0) {
    return absl::InternalError(fmt::format("{} requests failed", report->errors()));
  }
  return Interrupted() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::Status Formats(Session& session) {
  Table table({"FORMAT", "WHAT IT IS"});
  for (const env::TraceFormatInfo& format : env::TraceFormats()) {
    table.Add({std::string(format.name), std::string(format.help)});
  }
  table.Print(session);
  return absl::OkStatus();
}

void AddSynth(CLI::App* trace, Session& session) {
  auto order = std::make_shared<SynthCommand>();
  CLI::App* synth = trace->add_subcommand("synth", "make a trace of a load that nobody recorded");
  AddOutput(synth, order->output);
  synth->footer("Presets:\n" + SynthPresetHelp());
  AddSynthOptions(synth, "--preset", order->load);
  synth->add_option("--seed", order->seed, "the same seed gives the same trace (1)");
  synth->callback(
      [order, &session] { session.chosen = [order](Session& s) { return Synth(s, *order); }; });
}

void AddReplay(CLI::App* trace, Session& session) {
  auto order = std::make_shared<ReplayOrder>();
  CLI::App* replay =
      trace->add_subcommand("replay", "send a trace to an NBD export or a stopped node");
  AddInput(replay, order->input);
  auto* uri =
      replay->add_option("--uri", order->uri, "nbd+unix:///?socket=PATH or nbd://host:port/");
  auto* dir = replay->add_option("--dir", order->dir, "a stopped node's folder");
  dir->excludes(uri);
  replay->add_option("--config", order->config, "a stopped node's TOML file")
      ->excludes(uri)
      ->excludes(dir);
  replay->add_option("--speed", order->options.speed, "times faster than recorded (1)");
  replay->add_option("--depth", order->options.depth, "most requests in flight (64)");
  replay->add_flag("--closed-loop", order->closed_loop,
                   "as fast as answered, at --depth, not by time");
  replay->add_flag("--fold", order->options.fold_offsets, "wrap offsets into a smaller export");
  replay->add_option("--duration", order->duration, "repeat or cut to this long, e.g. 60s");
  replay->callback(
      [order, &session] { session.chosen = [order](Session& s) { return Replay(s, *order); }; });
}

}  // namespace

void AddTraceCommands(CLI::App& app, Session& session) {
  CLI::App* trace =
      app.add_subcommand("trace", "look into, convert, record, make and replay block traces");
  trace->require_subcommand(1);
  trace->footer(kTraceFooter);

  auto input = std::make_shared<Input>();
  CLI::App* info = trace->add_subcommand("info", "what a trace holds");
  AddInput(info, *input);
  info->callback(
      [input, &session] { session.chosen = [input](Session& s) { return Info(s, *input); }; });

  auto conversion = std::make_shared<std::pair<Input, Output>>();
  CLI::App* convert = trace->add_subcommand("convert", "write a trace in Ebb's format or fio's");
  AddInput(convert, conversion->first);
  AddOutput(convert, conversion->second);
  convert->callback([conversion, &session] {
    session.chosen = [conversion](Session& s) {
      return Convert(s, conversion->first, conversion->second);
    };
  });

  AddSynth(trace, session);
  AddTraceRecord(*trace, session);
  AddReplay(trace, session);
  trace->add_subcommand("formats", "the formats that can be read")->callback([&session] {
    session.chosen = Formats;
  });
}

}  // namespace ebb::cli
