#include "api/cli/trace_record_command.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "api/cli/progress.h"
#include "api/cli/stream_recorder.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "base/units.h"
#include "env/node/node_codec.h"
#include "env/node/stream_reader.h"
#include "fmt/format.h"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/node_config.h"

namespace ebb::cli {
namespace {

// The node keeps 65,536 requests; asked so often, it loses none below 260,000 a second.
constexpr uint64_t kAskEveryNs = 250 * kNsPerMs;

struct RecordOrder {
  std::string path;
  std::string dir;
  std::string socket;
  std::string duration;
};

absl::StatusOr<std::string> SocketOf(const RecordOrder& order) {
  if (!order.socket.empty()) return order.socket;
  if (order.dir.empty()) {
    return absl::InvalidArgumentError("say which node: --dir DIR or --socket FILE");
  }
  EBB_ASSIGN_OR_RETURN(const storage::NodeConfig config,
                       storage::LoadNodeConfig(order.dir + "/node.toml"));
  return config.control_socket;
}

absl::Status RecordUntil(env::StreamReader& stream, uint64_t duration_ns, StreamRecorder& recorder,
                         const std::atomic<bool>& interrupted) {
  Progress progress;
  const uint64_t begin_ns = RealClock().MonotonicNs();
  for (bool last = false; !last;) {
    const uint64_t passed_ns = RealClock().MonotonicNs() - begin_ns;
    last = interrupted || (duration_ns > 0 && passed_ns >= duration_ns);
    EBB_RETURN_IF_ERROR(
        stream.ReadToEnd([&](const env::StreamSlice& slice) { return recorder.Take(slice); }));
    const double share =
        duration_ns == 0 ? -1 : static_cast<double>(passed_ns) / static_cast<double>(duration_ns);
    progress.Show(std::min(share, 1.0), fmt::format("{} requests", recorder.counts().records));
    if (!last) RealClock().SleepUntilNs(RealClock().MonotonicNs() + kAskEveryNs);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> VolumeBytes(storage::JsonRpcClient& node) {
  EBB_ASSIGN_OR_RETURN(const std::string text, node.Call("node.info"));
  EBB_ASSIGN_OR_RETURN(const env::NodeInfo info, env::DecodeNodeInfo(text));
  return info.volume_bytes;
}

absl::Status Record(Session& session, const RecordOrder& order) {
  uint64_t duration_ns = 0;
  if (!order.duration.empty()) {
    EBB_ASSIGN_OR_RETURN(duration_ns, ParseDurationNs(order.duration));
  }
  EBB_ASSIGN_OR_RETURN(const std::string socket, SocketOf(order));
  storage::JsonRpcClient node(socket);
  EBB_ASSIGN_OR_RETURN(const uint64_t volume_bytes, VolumeBytes(node));
  const std::atomic<bool>& interrupted = CatchInterrupts();
  env::StreamReader stream(node);
  EBB_RETURN_IF_ERROR(stream.SkipToEnd());
  // From here on, which the file's being there tells, everything is recorded.
  EBB_ASSIGN_OR_RETURN(auto writer,
                       trace::TraceWriter::Create(
                           order.path, {.volume_bytes = volume_bytes,
                                        .recorded_wall_ms = RealClock().WallMs(),
                                        .note = "requests as the node told them (stream.get)"}));
  StreamRecorder recorder(std::move(writer));
  // What was recorded is kept also when the node goes away.
  absl::Status recorded = RecordUntil(stream, duration_ns, recorder, interrupted);
  EBB_RETURN_IF_ERROR(recorder.Close());
  const StreamCounts& counts = recorder.counts();
  session.Note(fmt::format(
      "{} requests recorded, {} lost; sampled regions: {}{}", counts.records, counts.dropped,
      counts.sample_rate_min >= 1 ? "all"
                                  : fmt::format("down to 1/{:.0f}", 1 / counts.sample_rate_min),
      counts.late == 0 ? "" : fmt::format("; {} out of order", counts.late)));
  return recorded;
}

}  // namespace

void AddTraceRecord(CLI::App& trace, Session& session) {
  auto order = std::make_shared<RecordOrder>();
  CLI::App* record = trace.add_subcommand("record", "a running node's requests into a trace");
  record->add_option("output-file", order->path, "the .ebbt file to write")->required();
  auto* dir = record->add_option("--dir", order->dir, "the node's folder");
  record->add_option("--socket", order->socket, "the node's control socket")->excludes(dir);
  record->add_option("--for", order->duration, "how long, e.g. 10min (until Ctrl-C)");
  record->footer(
      "A node tells every request up to 8,000 a second, above that those of a sample of its\n"
      "regions. For every request at any rate, with the content of each write, start the node\n"
      "with 'record=FILE' among the plugin's parameters.");
  record->callback(
      [order, &session] { session.chosen = [order](Session& s) { return Record(s, *order); }; });
}

}  // namespace ebb::cli
