#include "experiments/storage_bench/nbd_server.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "api/cli/node_process.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/durable_file.h"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/unix_socket.h"

namespace ebb::storage_bench {
namespace {

using experiments::ChildProcess;

constexpr uint64_t kStartNs = 60 * kNsPerS;
constexpr uint64_t kDrainNs = 120 * kNsPerS;
constexpr uint64_t kPollNs = 10 * kNsPerMs;

void WaitAMoment() { RealClock().SleepUntilNs(RealClock().MonotonicNs() + kPollNs); }

}  // namespace

absl::StatusOr<std::unique_ptr<NbdServer>> NbdServer::StartPeer(
    const std::string& folder, const std::string& name, const std::vector<std::string>& arguments) {
  auto server = std::unique_ptr<NbdServer>(new NbdServer(name, folder + "/" + name + ".sock"));
  std::vector<std::string> command = {"nbdkit", "--foreground", "--unix", server->socket_};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::filesystem::remove(server->socket_);
  EBB_ASSIGN_OR_RETURN(server->process_,
                       ChildProcess::Start(command, folder + "/" + name + ".log"));
  EBB_RETURN_IF_ERROR(server->WaitReady());
  server->Pause();
  return server;
}

absl::StatusOr<std::unique_ptr<NbdServer>> NbdServer::StartNode(const std::string& folder,
                                                                const storage::NodeConfig& config) {
  const std::string path = folder + "/node.toml";
  EBB_RETURN_IF_ERROR(storage::WriteFileDurably(path, storage::FormatNodeConfig(config)));
  auto server = std::unique_ptr<NbdServer>(new NbdServer("ebb", config.nbd.socket));
  server->control_socket_ = config.control_socket;
  EBB_ASSIGN_OR_RETURN(const cli::NodeCommand node, cli::MakeNodeCommand(config, path, ""));
  std::vector<std::string> command = {"env", "LD_PRELOAD=" + node.preload, node.nbdkit};
  command.insert(command.end(), node.arguments.begin(), node.arguments.end());
  std::filesystem::remove(server->socket_);
  EBB_ASSIGN_OR_RETURN(server->process_, ChildProcess::Start(command, folder + "/node.log"));
  EBB_RETURN_IF_ERROR(server->WaitReady());
  server->Pause();
  return server;
}

NbdServer::~NbdServer() {
  if (process_ == nullptr) return;
  Resume();
  process_->Stop(/*grace_ms=*/60'000);
}

absl::Status NbdServer::WaitReady() {
  const uint64_t deadline_ns = RealClock().MonotonicNs() + kStartNs;
  // nbdkit listens before the plugin has opened; our node's control socket answers after.
  while (control_socket_.empty()
             ? !storage::ConnectUnix(socket_).ok()
             : !storage::JsonRpcClient(control_socket_).Call("node.info").ok()) {
    if (!process_->IsRunning()) {
      return absl::InternalError(fmt::format("{} ended: {}", name_, process_->LogTail()));
    }
    if (RealClock().MonotonicNs() > deadline_ns) {
      return absl::DeadlineExceededError(name_ + " does not answer");
    }
    WaitAMoment();
  }
  return absl::OkStatus();
}

void NbdServer::Resume() { kill(process_->pid(), SIGCONT); }
void NbdServer::Pause() { kill(process_->pid(), SIGSTOP); }

absl::Status NbdServer::Drain() {
  if (control_socket_.empty()) return absl::OkStatus();
  storage::JsonRpcClient client(control_socket_);
  const uint64_t deadline_ns = RealClock().MonotonicNs() + kDrainNs;
  const std::string start = R"({"start": true})";
  while (RealClock().MonotonicNs() < deadline_ns) {
    EBB_ASSIGN_OR_RETURN(const std::string text, client.Call("node.drain", start));
    const auto reply = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (reply.is_object() && reply.value("dirty_bytes", uint64_t{1}) == 0) {
      return client.Call("node.drain", R"({"start": false})").status();
    }
    WaitAMoment();
  }
  return absl::DeadlineExceededError("the node does not drain");
}

double NbdServer::CpuSeconds() const {
  std::ifstream file(fmt::format("/proc/{}/stat", process_->pid()));
  std::ostringstream text;
  text << file.rdbuf();
  // Fields 14 and 15 are user and system time in ticks; the name in field 2 may hold blanks.
  std::istringstream fields(text.str().substr(text.str().rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user_ticks = 0;
  double system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  return (user_ticks + system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace ebb::storage_bench
