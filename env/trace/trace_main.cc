// ebb-trace: looks into a recorded trace, or replays it against an NBD export.
#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "base/status.h"
#include "base/time_text.h"
#include "base/trace/trace_reader.h"
#include "base/trace/trace_summary.h"
#include "base/units.h"
#include "env/trace/nbd_target.h"
#include "env/trace/replayer.h"
#include "fmt/format.h"

namespace ebb {
namespace {

absl::Status Info(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(auto reader, trace::TraceReader::Open(path));
  const trace::TraceHeader& header = reader->header();
  fmt::print("{}\nrecorded {} from a device of {}\n", header.note,
             FormatRfc3339(header.recorded_wall_ms), FormatBytes(header.volume_bytes));
  EBB_ASSIGN_OR_RETURN(const trace::TraceSummary summary, trace::Summarize(*reader));
  fmt::print("{}", summary.ToText());
  return absl::OkStatus();
}

absl::Status Replay(const std::string& path, const std::string& uri,
                    const env::ReplayOptions& options) {
  EBB_ASSIGN_OR_RETURN(auto target, env::NbdTarget::Connect(uri));
  EBB_ASSIGN_OR_RETURN(const env::ReplayReport report, env::ReplayTrace(path, *target, options));
  fmt::print("{}", report.ToText());
  if (report.errors() == 0) return absl::OkStatus();
  return absl::InternalError(fmt::format("{} requests failed", report.errors()));
}

int Main(int argc, char** argv) {
  CLI::App app("Looks into a recorded block trace (.ebbt) or replays it");
  app.require_subcommand(1);
  std::string path;
  std::string uri;
  std::string duration;
  bool closed_loop = false;
  env::ReplayOptions options;
  auto* info = app.add_subcommand("info", "What a trace holds");
  info->add_option("trace", path, "Trace file")->required();
  auto* replay = app.add_subcommand("replay", "Send a trace to an NBD export; its data is lost");
  replay->add_option("trace", path, "Trace file")->required();
  replay->add_option("--uri", uri, "nbd+unix:///?socket=PATH or nbd://host:port/")->required();
  replay->add_option("--speed", options.speed, "Times faster than recorded");
  replay->add_option("--depth", options.depth, "Most requests in flight");
  replay->add_flag("--closed-loop", closed_loop, "As fast as answered, at --depth, not by time");
  replay->add_flag("--fold", options.fold_offsets, "Wrap offsets into a smaller export");
  replay->add_option("--duration", duration, "Repeat or cut to this long, e.g. 60s");
  CLI11_PARSE(app, argc, argv);

  absl::Status status;
  if (!duration.empty()) {
    const absl::StatusOr<uint64_t> parsed = ParseDurationNs(duration);
    status = parsed.status();
    if (parsed.ok()) options.duration_ns = *parsed;
  }
  if (closed_loop) options.pace = env::ReplayOptions::Pace::kClosedLoop;
  if (status.ok()) status = info->parsed() ? Info(path) : Replay(path, uri, options);
  if (status.ok()) return 0;
  fmt::print(stderr, "ebb-trace: {}\n", std::string(status.message()));
  return 1;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) { return ebb::Main(argc, argv); }
