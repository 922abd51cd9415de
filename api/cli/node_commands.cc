#include "api/cli/node_commands.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "api/cli/node_check_command.h"
#include "api/cli/node_process.h"
#include "api/cli/table.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/device_class.h"
#include "storage-backend/control/durable_file.h"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/knobs/presets.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;
using storage::JsonRpcClient;
using storage::NodeConfig;

constexpr uint64_t kDrainPollNs = 300 * kNsPerMs;

constexpr const char* kStartFooter =
    "A first node, on sparse files in a folder of its own, with the service times of an NVMe "
    "cache\n"
    "over two 7200 rpm disks:\n"
    "  ebb node start --dir /tmp/alpha --cache-size 1G --capacity-size 8G --capacity-count 2 \\\n"
    "      --volume-size 8G --cache-shape nvme --capacity-shape disk-7200\n"
    "The same node again, as it is:\n"
    "  ebb node start --dir /tmp/alpha\n"
    "On real devices, write a file (a first start with --dir shows one) and name it:\n"
    "  ebb node start --config /etc/ebb/alpha.toml\n"
    "Then use it (any NBD client: fio, qemu, nbdcopy, nbdfuse) and let it be tuned:\n"
    "  nbdinfo 'nbd+unix:///?socket=/tmp/alpha/nbd.sock'\n"
    "  ebb attach /tmp/alpha/control.sock\n"
    "\n"
    "Shapes: disk-7200, sata-ssd, qlc-ssd, nvme. Leave them out where the devices are what they "
    "are.\n"
    "A capacity or cache file is made at the very first start only and never overwritten.";

// Which node a command means.
struct Target {
  std::string dir;
  std::string config;
  std::string socket;
};

void AddTarget(CLI::App* command, Target& target) {
  auto* dir = command->add_option("--dir", target.dir, "the node's folder");
  auto* config = command->add_option("--config", target.config, "the node's TOML file");
  auto* socket = command->add_option("--socket", target.socket, "the node's control socket");
  dir->excludes(config)->excludes(socket);
  config->excludes(socket);
}

std::string ConfigPath(const Target& target) {
  return target.dir.empty() ? target.config : target.dir + "/node.toml";
}

absl::StatusOr<JsonRpcClient*> Connect(const Target& target,
                                       std::unique_ptr<JsonRpcClient>& client) {
  std::string socket = target.socket;
  if (socket.empty()) {
    if (target.dir.empty() && target.config.empty()) {
      return absl::InvalidArgumentError(
          "say which node: --dir DIR, --config FILE or --socket FILE");
    }
    EBB_ASSIGN_OR_RETURN(const NodeConfig config, storage::LoadNodeConfig(ConfigPath(target)));
    socket = config.control_socket;
  }
  client = std::make_unique<JsonRpcClient>(socket);
  return client.get();
}

absl::StatusOr<Json> Call(JsonRpcClient& client, std::string_view method,
                          const Json& params = Json::object()) {
  EBB_ASSIGN_OR_RETURN(const std::string text, client.Call(method, params.dump()));
  return Json::parse(text);
}

// A line on a terminal that the next one replaces; nothing elsewhere.
class ProgressLine {
 public:
  void Show(const std::string& text) {
    if (!terminal_ || text == shown_) return;
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
    shown_ = text;
  }
  ~ProgressLine() {
    if (!shown_.empty()) fmt::print(stderr, "\r\033[K");
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::string shown_;
};

// ---- start

struct StartOrder {
  Target target;
  std::string name;
  std::string volume_size = "8G";
  std::string cache_size = "1G";
  std::string capacity_size = "8G";
  int capacity_count = 1;
  int group_count = 1;
  std::string cache_shape;
  std::string capacity_shape;
  double shape_scale = 1;
  std::string device_class;
  uint16_t nbd_port = 0;
  int threads = 16;
  std::string record;
  std::string timeout = "10min";
  bool foreground = false;
  bool describes_a_node = false;  // an option was given that only a new node takes
};

// Told, or that of the model, or what the folder with the capacity files lies on.
std::string DeviceClassOf(const StartOrder& order, const std::string& folder) {
  if (!order.device_class.empty()) return order.device_class;
  if (order.capacity_shape == "disk-7200") return "disk";
  if (!order.capacity_shape.empty()) return order.capacity_shape;
  return storage::DetectDeviceClass(folder);
}

absl::StatusOr<NodeConfig> ConfigOf(const StartOrder& order, const std::string& folder) {
  NodeConfig config;
  config.name = order.name.empty() ? std::filesystem::path(folder).filename().string() : order.name;
  config.device_class = DeviceClassOf(order, folder);
  config.initial = storage::PresetSetting(config.device_class);
  EBB_ASSIGN_OR_RETURN(config.volume_bytes, ParseBytes(order.volume_size));
  // Beside the file: the folder may be moved.
  config.control_socket = "control.sock";
  config.state_dir = "state";
  config.nbd.threads = order.threads;
  if (order.nbd_port == 0) {
    config.nbd.socket = "nbd.sock";
  } else {
    config.nbd.address = "127.0.0.1";
    config.nbd.port = order.nbd_port;
  }
  EBB_ASSIGN_OR_RETURN(const uint64_t cache_bytes, ParseBytes(order.cache_size));
  EBB_ASSIGN_OR_RETURN(const uint64_t capacity_bytes, ParseBytes(order.capacity_size));
  for (int g = 1; g <= order.group_count; ++g) {
    // A node of one group has the plain names.
    const std::string suffix = order.group_count == 1 ? "" : fmt::format("-{}", g);
    storage::GroupConfig group;
    group.metadata_dir = "metadata" + suffix;
    group.cache = {.path = fmt::format("cache{}.img", suffix),
                   .create_bytes = cache_bytes,
                   .shape = order.cache_shape,
                   .shape_scale = order.cache_shape.empty() ? 1 : order.shape_scale};
    for (int i = 1; i <= order.capacity_count; ++i) {
      group.capacity.push_back(
          {.path = fmt::format("capacity{}-{}.img", suffix, i),
           .create_bytes = capacity_bytes,
           .shape = order.capacity_shape,
           .shape_scale = order.capacity_shape.empty() ? 1 : order.shape_scale});
    }
    config.groups.push_back(std::move(group));
  }
  return config;
}

// Writes DIR/node.toml of a new node, once everything in it is known to be right.
absl::Status WriteNewConfig(const StartOrder& order, const std::string& folder,
                            const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const NodeConfig config, ConfigOf(order, folder));
  const std::string text = storage::FormatNodeConfig(config);
  EBB_RETURN_IF_ERROR(storage::ParseNodeConfig(text, path, folder).status());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("cannot make {}", folder));
  return storage::WriteFileDurably(path, text);
}

// The absolute path of the node's TOML file, written first for a new node.
absl::StatusOr<std::string> PrepareConfig(const StartOrder& order) {
  if (order.target.dir.empty() && order.target.config.empty()) {
    return absl::InvalidArgumentError("say which node: --dir DIR or --config FILE");
  }
  const std::filesystem::path path =
      std::filesystem::absolute(ConfigPath(order.target)).lexically_normal();
  if (order.target.dir.empty()) {
    if (order.describes_a_node) {
      return absl::InvalidArgumentError(
          "--config FILE says all about the node: sizes, shapes and the like go into the file");
    }
    return path.string();
  }
  if (!std::filesystem::exists(path)) {
    EBB_RETURN_IF_ERROR(WriteNewConfig(order, path.parent_path().string(), path.string()));
  } else if (order.describes_a_node) {
    return absl::InvalidArgumentError(
        fmt::format("{} exists already: start that node with --dir alone, edit the file, or choose "
                    "another folder",
                    path.string()));
  }
  return path.string();
}

void PrintStarted(const Session& session, const NodeConfig& config, const std::string& config_path,
                  const std::string& log_path, pid_t pid) {
  const std::string uri = storage::NbdUri(config.nbd);
  if (session.format == Format::kJson) {
    const Json json = {{"name", config.name},
                       {"pid", pid},
                       {"nbd_uri", uri},
                       {"control_socket", config.control_socket},
                       {"config_path", config_path},
                       {"log_path", log_path}};
    session.Print(json.dump(2) + "\n");
    return;
  }
  session.Print(
      fmt::format("node     {} runs (pid {})\n"
                  "nbd      {}\n"
                  "control  {}\n"
                  "config   {}\n"
                  "log      {}\n",
                  config.name, pid, uri, config.control_socket, config_path, log_path));
}

absl::Status RefuseRunning(JsonRpcClient& client) {
  const absl::StatusOr<Json> info = Call(client, "node.info");
  if (absl::IsUnavailable(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  return absl::FailedPreconditionError(fmt::format("node {} runs already (pid {}), at {}",
                                                   info->value("name", "?"), info->value("pid", 0),
                                                   info->value("nbd_uri", "?")));
}

absl::Status StartNode(Session& session, const StartOrder& order) {
  EBB_ASSIGN_OR_RETURN(const uint64_t timeout_ns, ParseDurationNs(order.timeout));
  EBB_ASSIGN_OR_RETURN(const std::string config_path, PrepareConfig(order));
  EBB_ASSIGN_OR_RETURN(const NodeConfig config, storage::LoadNodeConfig(config_path));
  std::string record = order.record;
  if (!record.empty()) record = std::filesystem::absolute(record).string();
  EBB_ASSIGN_OR_RETURN(const NodeCommand command, MakeNodeCommand(config, config_path, record));
  JsonRpcClient client(config.control_socket);
  EBB_RETURN_IF_ERROR(RefuseRunning(client));
  EBB_RETURN_IF_ERROR(ClearNbdSocket(config.nbd));
  if (order.foreground) return ExecNode(command);

  const std::string log_path =
      (std::filesystem::path(config_path).parent_path() / (config.name + ".log")).string();
  EBB_ASSIGN_OR_RETURN(NodeProcess process, NodeProcess::Start(command, log_path));
  ProgressLine line;
  pid_t pid = 0;
  EBB_RETURN_IF_ERROR(process.WaitReady(
      [&] {
        // Another node's answer is not this one's: its pid tells.
        const absl::StatusOr<Json> info = Call(client, "node.info");
        pid = info.ok() ? info->value("pid", 0) : 0;
        return process.Owns(pid);
      },
      timeout_ns, [&](const std::string& text) { line.Show(text); }));
  PrintStarted(session, config, config_path, log_path, pid);
  return absl::OkStatus();
}

void AddStart(CLI::App& node, Session& session) {
  auto order = std::make_shared<StartOrder>();
  CLI::App* start = node.add_subcommand("start", "start a node and wait until it serves");
  start->footer(kStartFooter);
  auto* dir = start->add_option("--dir", order->target.dir,
                                "folder of the node; a new one is made with all that it needs");
  start->add_option("--config", order->target.config, "the node's TOML file")->excludes(dir);
  const std::vector<CLI::Option*> of_a_new_node = {
      start->add_option("--name", order->name, "name of a new node (default: its folder's)"),
      start->add_option("--volume-size", order->volume_size, "what clients see")
          ->capture_default_str(),
      start->add_option("--cache-size", order->cache_size, "file of the cache device")
          ->capture_default_str(),
      start->add_option("--capacity-size", order->capacity_size, "file of each capacity device")
          ->capture_default_str(),
      start->add_option("--capacity-count", order->capacity_count, "capacity devices of a group")
          ->check(CLI::Range(1, static_cast<int>(storage::kCapacityDevicesMax)))
          ->capture_default_str(),
      start
          ->add_option("--groups", order->group_count,
                       "disk groups, each a cache and its capacity devices; the volume is "
                       "striped over them")
          ->check(CLI::Range(1, static_cast<int>(storage::kNodeGroupsMax)))
          ->capture_default_str(),
      start->add_option("--cache-shape", order->cache_shape,
                        "give the cache the service times of this model"),
      start->add_option("--capacity-shape", order->capacity_shape, "likewise the capacity devices"),
      start->add_option("--shape-scale", order->shape_scale,
                        "modelled devices are this many times faster"),
      start->add_option("--device-class", order->device_class,
                        "of the capacity tier, for the defaults of knobs: disk, sata-ssd, qlc-ssd, "
                        "nvme or unknown (default: by --capacity-shape, or by what the folder lies "
                        "on)"),
      start->add_option("--nbd-port", order->nbd_port,
                        "serve NBD on this TCP port of 127.0.0.1 (default: a unix socket)"),
      start->add_option("--threads", order->threads, "requests served at once, a connection")
          ->check(CLI::Range(1, 256))
          ->capture_default_str()};
  start->add_option("--record", order->record, "write a trace of all requests to this file");
  start->add_option("--timeout", order->timeout, "how long to wait for a recovery")
      ->capture_default_str();
  start->add_flag("--foreground", order->foreground, "stay this process (for systemd)");
  start->callback([order, of_a_new_node, &session] {
    for (const CLI::Option* option : of_a_new_node) {
      if (option->count() > 0) order->describes_a_node = true;
    }
    session.chosen = [order](Session& s) { return StartNode(s, *order); };
  });
}

// ---- stop

absl::Status StopNode(Session& session, const Target& target, const std::string& timeout) {
  EBB_ASSIGN_OR_RETURN(const uint64_t timeout_ns, ParseDurationNs(timeout));
  std::unique_ptr<JsonRpcClient> owner;
  EBB_ASSIGN_OR_RETURN(JsonRpcClient * client, Connect(target, owner));
  EBB_ASSIGN_OR_RETURN(const Json info, Call(*client, "node.info"));
  const auto pid = info.value("pid", pid_t{0});
  const std::string name = info.value("name", "?");
  EBB_RETURN_IF_ERROR(Call(*client, "node.stop").status());
  ProgressLine line;
  EBB_ASSIGN_OR_RETURN(const bool gone, WaitForExit(pid, timeout_ns, [&](double seconds) {
                         line.Show(
                             fmt::format("{} answers its last requests and writes down its "
                                         "state: {:.0f} s",
                                         name, seconds));
                       }));
  if (!gone) {
    return absl::DeadlineExceededError(
        fmt::format("node {} (pid {}) still closes after {}; it goes on with that", name, pid,
                    FormatDurationNs(timeout_ns)));
  }
  if (session.format == Format::kJson) {
    session.Print(Json({{"name", name}, {"stopped", true}}).dump(2) + "\n");
  } else {
    session.Print(fmt::format("node {} has stopped\n", name));
  }
  return absl::OkStatus();
}

void AddStop(CLI::App& node, Session& session) {
  auto target = std::make_shared<Target>();
  auto timeout = std::make_shared<std::string>("2min");
  CLI::App* stop = node.add_subcommand("stop", "stop a node cleanly and wait for its end");
  stop->footer(
      "Requests that were received are answered, then connections end, however many clients stay.\n"
      "Data in the cache log stays there and is destaged after the next start: drain first if the\n"
      "cache device is to be removed.");
  AddTarget(stop, *target);
  stop->add_option("--timeout", *timeout, "how long to wait")->capture_default_str();
  stop->callback([target, timeout, &session] {
    session.chosen = [target, timeout](Session& s) { return StopNode(s, *target, *timeout); };
  });
}

// ---- status

std::string SettingLine(const Json& knobs) {
  std::string text = fmt::format("version {}", knobs.value("version", 0));
  if (knobs.contains("lease") && knobs["lease"].is_object()) {
    text += fmt::format(
        ", a candidate on trial for {} more",
        FormatDurationNs(knobs["lease"].value("expires_in_ms", uint64_t{0}) * kNsPerMs));
  }
  return text;
}

void PrintStatus(const Session& session, const Json& info, const Json& knobs, const Json& metrics) {
  const Json& gauges = metrics["gauges"];
  const auto bytes = [&](const char* name) { return FormatBytes(gauges.value(name, uint64_t{0})); };
  Table table({"what", "value"});
  table.Add(
      {"node", fmt::format("{} (pid {}), up {}", info.value("name", "?"), info.value("pid", 0),
                           FormatDurationNs(metrics.value("uptime_ns", uint64_t{0})))});
  table.Add({"nbd", info.value("nbd_uri", "?")});
  table.Add({"volume", FormatBytes(info.value("volume_bytes", uint64_t{0}))});
  for (const Json& device : info["devices"]) {
    table.Add({device.value("role", "?"), device.value("describe", "?")});
  }
  table.Add({"cache log", fmt::format("{} dirty ({:.0f} % of the write space), {} clean, {} free",
                                      bytes("dirty_bytes"), gauges.value("dirty_share", 0.0) * 100,
                                      bytes("clean_bytes"), bytes("free_bytes"))});
  table.Add({"space", fmt::format("{} logical, {} unique, {} physical", bytes("logical_bytes"),
                                  bytes("unique_bytes"), bytes("physical_bytes"))});
  for (const char* kind : {"read", "write", "flush", "trim"}) {
    const Json& op = metrics["ops"][kind];
    table.Add({kind, fmt::format("{} requests, {}, {} errors", op.value("ops", uint64_t{0}),
                                 FormatBytes(op.value("bytes", uint64_t{0})),
                                 op.value("errors", uint64_t{0}))});
  }
  table.Add({"setting", SettingLine(knobs)});
  if (knobs["last_revert"].is_object()) {
    table.Add({"last revert", knobs["last_revert"].value("cause", "?")});
  }
  table.Print(session);
}

absl::Status ShowStatus(Session& session, const Target& target) {
  std::unique_ptr<JsonRpcClient> owner;
  EBB_ASSIGN_OR_RETURN(JsonRpcClient * client, Connect(target, owner));
  EBB_ASSIGN_OR_RETURN(const Json info, Call(*client, "node.info"));
  EBB_ASSIGN_OR_RETURN(const Json knobs, Call(*client, "knobs.get"));
  EBB_ASSIGN_OR_RETURN(const Json metrics, Call(*client, "metrics.get"));
  if (session.format == Format::kJson) {
    session.Print(Json({{"info", info}, {"knobs", knobs}, {"metrics", metrics}}).dump(2) + "\n");
  } else {
    PrintStatus(session, info, knobs, metrics);
  }
  return absl::OkStatus();
}

void AddStatus(CLI::App& node, Session& session) {
  auto target = std::make_shared<Target>();
  CLI::App* status = node.add_subcommand("status", "what a node is and how full it is");
  AddTarget(status, *target);
  status->callback([target, &session] {
    session.chosen = [target](Session& s) { return ShowStatus(s, *target); };
  });
}

// ---- metrics

absl::Status ShowMetrics(Session& session, const Target& target) {
  std::unique_ptr<JsonRpcClient> owner;
  EBB_ASSIGN_OR_RETURN(JsonRpcClient * client, Connect(target, owner));
  if (session.format == Format::kJson) {
    EBB_ASSIGN_OR_RETURN(const Json metrics, Call(*client, "metrics.get"));
    session.Print(metrics.dump(2) + "\n");
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(const Json answer, Call(*client, "metrics.text"));
  session.Print(answer.value("text", ""));
  return absl::OkStatus();
}

void AddMetrics(CLI::App& node, Session& session) {
  auto target = std::make_shared<Target>();
  CLI::App* metrics = node.add_subcommand("metrics", "a node's metrics as Prometheus text");
  metrics->footer(
      "For Prometheus, let a timer write them where node_exporter's textfile collector looks:\n"
      "  ebb node metrics --socket /run/ebb/alpha.sock > alpha.prom.new && mv alpha.prom.new "
      "alpha.prom\n"
      "With -o json: the cumulative counters and histograms as the tuner gets them.");
  AddTarget(metrics, *target);
  metrics->callback([target, &session] {
    session.chosen = [target](Session& s) { return ShowMetrics(s, *target); };
  });
}

// ---- drain

// How the drain that began after event `before` ended.
absl::Status DrainOutcome(Session& session, JsonRpcClient& client, uint64_t before) {
  EBB_ASSIGN_OR_RETURN(const Json answer, Call(client, "events.get", {{"after", before}}));
  for (const Json& event : answer["events"]) {
    const std::string text = event.value("text", "");
    if (event.value("kind", "") == "error") return absl::InternalError(text);
    if (event.value("kind", "") == "drain") session.Note(text);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LastEvent(JsonRpcClient& client) {
  uint64_t last = 0;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const Json answer, Call(client, "events.get", {{"after", last}}));
    if (answer["events"].empty()) return last;
    last = answer["events"].back().value("number", last);
  }
}

absl::Status DrainNode(Session& session, const Target& target, bool cancel) {
  std::unique_ptr<JsonRpcClient> owner;
  EBB_ASSIGN_OR_RETURN(JsonRpcClient * client, Connect(target, owner));
  EBB_ASSIGN_OR_RETURN(const uint64_t before, LastEvent(*client));
  EBB_ASSIGN_OR_RETURN(Json state, Call(*client, "node.drain", {{"start", !cancel}}));
  ProgressLine line;
  while (state.value("draining", false)) {
    const std::string eta =
        state["eta_s"].is_number()
            ? fmt::format(", about {} to go",
                          FormatDurationNs(static_cast<uint64_t>(state["eta_s"].get<double>() *
                                                                 static_cast<double>(kNsPerS))))
            : "";
    line.Show(fmt::format("{} dirty{}", FormatBytes(state.value("dirty_bytes", uint64_t{0})), eta));
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + kDrainPollNs);
    EBB_ASSIGN_OR_RETURN(state, Call(*client, "node.drain"));
  }
  EBB_RETURN_IF_ERROR(DrainOutcome(session, *client, before));
  if (session.format == Format::kJson) {
    session.Print(Json({{"dirty_bytes", state["dirty_bytes"]}}).dump(2) + "\n");
  } else {
    session.Print(fmt::format("{} dirty\n", FormatBytes(state.value("dirty_bytes", uint64_t{0}))));
  }
  return absl::OkStatus();
}

void AddDrain(CLI::App& node, Session& session) {
  auto target = std::make_shared<Target>();
  auto cancel = std::make_shared<bool>(false);
  CLI::App* drain = node.add_subcommand("drain", "destage until nothing in the cache log is dirty");
  drain->footer("Ending this command does not end the drain: 'ebb node drain --cancel' does.");
  AddTarget(drain, *target);
  drain->add_flag("--cancel", *cancel, "end a drain that runs");
  drain->callback([target, cancel, &session] {
    session.chosen = [target, cancel](Session& s) { return DrainNode(s, *target, *cancel); };
  });
}

}  // namespace

void AddNodeCommands(CLI::App& app, Session& session) {
  CLI::App* node = app.add_subcommand("node", "start, stop and look at a storage node");
  node->require_subcommand(1);
  node->fallthrough();
  AddStart(*node, session);
  AddStop(*node, session);
  AddStatus(*node, session);
  AddMetrics(*node, session);
  AddDrain(*node, session);
  AddCheck(*node, session);
}

}  // namespace ebb::cli
