#include "engine/daemon/run_daemon.h"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "api/rest/http_server.h"
#include "api/rest/rest_api.h"
#include "base/host_memory.h"
#include "base/status.h"
#include "engine/daemon/daemon_config.h"
#include "engine/daemon/state_dir.h"
#include "engine/history/history.h"
#include "engine/loop/engine_service.h"
#include "env/node/node_environment.h"
#include "fmt/format.h"

namespace ebb::engine {
namespace {

constexpr time_t kAttachRetrySeconds = 2;

constexpr const char* kFooter =
    "Examples:\n"
    "  ebbd --state-dir /var/lib/ebb --attach /run/ebb/alpha/control.sock\n"
    "  ebbd --config /etc/ebb/ebb.toml --check-config\n"
    "  ebbd --listen unix:/run/ebb/api.sock --goal write --mode observe --attach ./control.sock\n"
    "\n"
    "A flag wins over the file. --goal, --mode and --on-exit are for nodes attached for the first "
    "time: what\n"
    "was set later, by 'ebb goal' for example, is remembered in the state folder.";

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kFailedPrecondition:
      return 4;
    default:
      return 1;
  }
}

// One line of stderr for each line of the message.
void Complain(const absl::Status& status) {
  std::string text(status.message());
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = text.find('\n', begin);
    fmt::print(stderr, "ebbd: {}\n", text.substr(begin, end - begin));
    if (end == text.npos) break;
    begin = end + 1;
  }
}

// What the arguments say; flags not given leave the file's values.
struct Arguments {
  std::string config_file;
  bool check_config = false;
  std::optional<std::string> listen;
  std::optional<std::string> state_dir;
  std::vector<std::string> attach;
  std::optional<std::string> agent;
  std::optional<std::string> goal;
  std::optional<std::string> mode;
  std::optional<std::string> on_exit;
  std::optional<std::string> window;
  std::optional<std::string> holdback;
  std::optional<std::string> log_level;
};

void AddOptions(CLI::App& app, Arguments& arguments) {
  app.add_option("--config", arguments.config_file, "TOML file with the same keys as the flags");
  app.add_flag("--check-config", arguments.check_config,
               "print the configuration in force, or every fault of it, and exit");
  app.add_option("--listen", arguments.listen,
                 "where REST is served: 127.0.0.1:8377 (default) or unix:/run/ebb/api.sock");
  app.add_option("--state-dir", arguments.state_dir,
                 "folder of the history and of what is attached (/var/lib/ebb)");
  app.add_option("--attach", arguments.attach,
                 "control socket of a node to tune; may be given again")
      ->take_all();
  app.add_option("--agent", arguments.agent,
                 "who proposes changes: preset_climb (default), hill_climb, ...");
  app.add_option("--goal", arguments.goal, "read, write or balanced (default)");
  app.add_option("--mode", arguments.mode, "observe, recommend, approve or auto (default)");
  app.add_option("--on-exit", arguments.on_exit,
                 "keep (default) or restore the setting from before attach");
  app.add_option("--window", arguments.window, "length of a measurement, e.g. 1s (default)");
  app.add_option("--holdback", arguments.holdback,
                 "share of the time in which the default runs, to measure what tuning brings: 5% "
                 "(default), 0% for never");
  app.add_option("--log-level", arguments.log_level, "debug, info (default), warning, error, off");
  app.set_version_flag("--version", "ebbd " EBB_VERSION);
  app.footer(kFooter);
}

absl::StatusOr<DaemonConfig> MakeConfig(const Arguments& arguments) {
  DaemonConfig config;
  if (!arguments.config_file.empty()) {
    EBB_RETURN_IF_ERROR(ReadConfigFile(arguments.config_file, config));
  }
  const std::pair<const std::optional<std::string>*, std::string*> kTexts[] = {
      {&arguments.listen, &config.listen},       {&arguments.agent, &config.agent},
      {&arguments.state_dir, &config.state_dir}, {&arguments.goal, &config.goal},
      {&arguments.mode, &config.mode},           {&arguments.log_level, &config.log_level},
      {&arguments.on_exit, &config.on_exit}};
  for (const auto& [given, target] : kTexts) {
    if (*given) *target = **given;
  }
  if (!arguments.attach.empty()) config.attach = arguments.attach;
  if (arguments.window) {
    const auto window_ns = ParseWindowNs(*arguments.window);
    if (!window_ns.ok()) return Annotate(window_ns.status(), "--window");
    config.window_ns = *window_ns;
  }
  if (arguments.holdback) {
    const auto share = ParseHoldbackShare(*arguments.holdback);
    if (!share.ok()) return Annotate(share.status(), "--holdback");
    config.holdback_share = *share;
  }
  EBB_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

// SIGTERM and SIGINT, taken by this thread alone: blocked here before any other thread starts.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  // Waits for one; false when `seconds` have passed without.
  bool Wait(std::optional<time_t> seconds) {
    const timespec limit = {seconds.value_or(0), 0};
    while (true) {
      const int signal =
          seconds ? sigtimedwait(&set_, nullptr, &limit) : sigwaitinfo(&set_, nullptr);
      if (signal > 0) return true;
      if (errno == EAGAIN) return false;
    }
  }
  // From now on a signal has its usual effect: the process ends.
  void LetThrough() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

 private:
  sigset_t set_;
};

// Attaches what the configuration names; what cannot be attached now is tried again later.
class Attacher {
 public:
  Attacher(EngineService& service, const DaemonConfig& config)
      : service_(service),
        goal_(GoalOf(config)),
        mode_(*ParseMode(config.mode)),
        waiting_(config.attach) {}

  bool done() const { return waiting_.empty(); }

  void Try() {
    std::vector<std::string> failed;
    for (const std::string& socket : waiting_) {
      if (IsAttached(socket)) continue;
      const auto id = service_.Attach(socket, "", goal_, mode_);
      if (id.ok()) {
        spdlog::info("attached node {} at {}", *id, socket);
        continue;
      }
      if (first_) {
        spdlog::warn("cannot attach {} yet, trying again every {} s: {}", socket,
                     kAttachRetrySeconds, std::string(id.status().message()));
      }
      failed.push_back(socket);
    }
    first_ = false;
    waiting_ = std::move(failed);
  }

 private:
  bool IsAttached(const std::string& socket) {
    for (const NodeStatus& node : service_.Nodes()) {
      if (node.control_socket == socket) return true;
    }
    return false;
  }

  EngineService& service_;
  const Goal goal_;
  const Mode mode_;
  std::vector<std::string> waiting_;
  bool first_ = true;
};

void StartLog(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("ebbd");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

EnvironmentFactory NodeFactory(Clock& clock, uint64_t window_ns) {
  return [&clock, window_ns](
             const std::string& socket) -> absl::StatusOr<std::unique_ptr<env::Environment>> {
    env::NodeEnvironmentConfig config;
    config.socket_path = socket;
    config.window_ns = window_ns;
    EBB_ASSIGN_OR_RETURN(auto node, env::NodeEnvironment::Connect(config, clock));
    return std::unique_ptr<env::Environment>(std::move(node));
  };
}

absl::Status Serve(const DaemonConfig& config, const DaemonParts& parts, StopSignals& signals) {
  Clock& clock = RealClock();
  EBB_ASSIGN_OR_RETURN(const auto state, StateDir::Open(config.state_dir));
  // Before the engine starts, so that a taken address leaves every node alone.
  EBB_ASSIGN_OR_RETURN(const rest::ListenAddress address, rest::ParseListenAddress(config.listen));
  EBB_RETURN_IF_ERROR(rest::CheckListenAddressIsFree(address));
  EBB_ASSIGN_OR_RETURN(auto history,
                       OpenHistory(state->path() + "/history", {.keep = config.keep}));
  LoopConfig loop = parts.loop;
  ApplyConfig(config, loop);
  // The sidecar runs beside its nodes: they share the host.
  loop.envelope.host_memory_bytes = HostMemoryBytes();
  const AgentFactory make_agent = [&](const std::string& node, const env::EnvironmentInfo&,
                                      const env::KnobSpace&) {
    const auto seed = static_cast<uint64_t>(clock.WallMs());
    spdlog::debug("node {}: agent {}, seed {}", node, config.agent, seed);
    return parts.make_agent(config.agent, seed);
  };
  EBB_ASSIGN_OR_RETURN(auto service,
                       EngineService::Open(clock, std::move(history),
                                           NodeFactory(clock, config.window_ns), make_agent, loop));
  rest::RestApi api(*service, clock,
                    {EBB_VERSION, [](const std::string& line) { spdlog::error("{}", line); }});
  rest::HttpServerOptions options;
  options.address = address;
  EBB_ASSIGN_OR_RETURN(const auto server, rest::HttpServer::Start(options, api));
  spdlog::info("ebbd {} serves {}, state in {}", EBB_VERSION, server->address().Url(),
               state->path());

  Attacher attacher(*service, config);
  attacher.Try();
  api.SetReady(true);
  while (!signals.Wait(attacher.done() ? std::nullopt : std::optional(kAttachRetrySeconds))) {
    attacher.Try();
  }
  spdlog::info(
      "stopping: open trials end, nodes keep their trusted settings or those from before attach");
  signals.LetThrough();
  api.SetReady(false);
  server->Stop();
  service.reset();
  spdlog::info("stopped");
  return absl::OkStatus();
}

}  // namespace

int RunDaemon(int argc, char** argv, const DaemonParts& parts) {
  CLI::App app("ebbd tunes storage nodes through their control sockets and serves REST.", "ebbd");
  Arguments arguments;
  AddOptions(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "ebbd: {}; see 'ebbd --help'\n", error.what());
    return 2;
  }
  const absl::StatusOr<DaemonConfig> config = MakeConfig(arguments);
  if (!config.ok()) {
    Complain(config.status());
    return 2;
  }
  if (arguments.check_config) {
    fmt::print("{}", ConfigText(*config));
    return 0;
  }
  StopSignals signals;
  StartLog(config->log_level);
  const absl::Status status = Serve(*config, parts, signals);
  if (!status.ok()) Complain(status);
  return ExitCodeOf(status);
}

}  // namespace ebb::engine
