#include "tests/e2e/live_node.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::testing {
namespace {

const std::string kBin = std::string(EBB_BINARY_DIR) + "/bin/";

std::vector<std::string> FioArguments(const std::string& uri, const std::vector<std::string>& job) {
  std::vector<std::string> arguments = {"--name=e2e", "--ioengine=nbd", "--uri=" + uri, "--thread",
                                        "--group_reporting"};
  arguments.insert(arguments.end(), job.begin(), job.end());
  return arguments;
}

}  // namespace

bool Eventually(const std::function<bool()>& holds, int seconds) {
  const uint64_t end_ns =
      RealClock().MonotonicNs() + static_cast<uint64_t>(seconds) * 1'000'000'000;
  while (RealClock().MonotonicNs() < end_ns) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return holds();
}

LiveNode::LiveNode(const std::string& setting) {
  const std::string node = folder() + "/node";
  std::filesystem::create_directory(node);
  std::ofstream(config()) << R"(name = "live"
device_class = "disk"
volume_size = "1GiB"
control_socket = "control.sock"
state_dir = "state"
metadata_dir = "metadata"
[nbd]
socket = "nbd.sock"
[cache]
path = "cache.img"
size = "256MiB"
shape = "nvme"
[[capacity]]
path = "capacity-1.img"
size = "1GiB"
shape = "disk-7200"
shape_scale = 32
[setting]
)" << setting << "\n";
  const ProgramResult started = Ebb({"node", "start", "--config", config()});
  if (started.exit_code != 0) fault_ = started.err;
}

LiveNode::~LiveNode() {
  daemon_.reset();
  fio_.reset();
  Ebb({"node", "stop", "--config", config()});
}

std::string LiveNode::Drain() const {
  const ProgramResult drained = Ebb({"node", "drain", "--config", config()});
  return drained.exit_code == 0 ? "" : drained.err;
}

ProgramResult LiveNode::RunFio(const std::vector<std::string>& job) const {
  return RunProgram("/usr/bin/fio", FioArguments(nbd_uri(), job));
}

void LiveNode::StartFio(const std::vector<std::string>& job) {
  fio_ = std::make_unique<BackgroundProgram>("/usr/bin/fio", FioArguments(nbd_uri(), job),
                                             folder() + "/fio.log");
}

void LiveNode::StartDaemon(const std::string& program, std::vector<std::string> arguments) {
  for (const std::string& argument : {std::string("--listen"), "unix:" + api_socket(),
                                      std::string("--state-dir"), folder() + "/state"}) {
    arguments.push_back(argument);
  }
  daemon_ = std::make_unique<BackgroundProgram>(kBin + program, arguments, folder() + "/ebbd.log");
  Eventually(
      [&] { return !daemon_->IsRunning() || Curl("/readyz").find("\"ok\"") != std::string::npos; },
      30);
}

ProgramResult LiveNode::Ebb(std::vector<std::string> arguments) const {
  return RunProgram(kBin + "ebb", std::move(arguments), {"EBB_URL=unix:" + api_socket()});
}

std::string LiveNode::Curl(const std::string& target) const {
  return RunProgram("/usr/bin/curl",
                    {"--silent", "--unix-socket", api_socket(), "http://localhost" + target})
      .out;
}

nlohmann::json LiveNode::Get(const std::string& target) const {
  return nlohmann::json::parse(Curl(target), nullptr, /*allow_exceptions=*/false);
}

nlohmann::json LiveNode::Control(const std::string& method) const {
  storage::JsonRpcClient client(control_socket());
  const auto answer = client.Call(method);
  return answer.ok() ? nlohmann::json::parse(*answer, nullptr, false) : nlohmann::json();
}

std::string LiveNode::Diagnosis() const {
  return "daemon:\n" + (daemon_ ? daemon_->Log() : "none") + "\nfio:\n" +
         (fio_ ? fio_->Log() : "none") + "\n" + Ebb({"status"}).out + Ebb({"changes"}).out;
}

}  // namespace ebb::testing
