#include "experiments/demo/demo_node.h"

#include <filesystem>

#include "base/clock.h"
#include "base/status.h"
#include "base/text_file.h"
#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::demo {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kStartTimeoutNs = 30 * kNsPerS;
constexpr uint64_t kPollNs = 200 * kNsPerMs;
constexpr uint64_t kStopGraceMs = 60'000;  // it destages nothing, but flushes and closes RocksDB

absl::StatusOr<Json> Call(const std::string& socket, const char* method, const Json& params) {
  storage::JsonRpcClient client(socket);
  EBB_ASSIGN_OR_RETURN(const std::string text, client.Call(method, params.dump()));
  Json result = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!result.is_object()) return absl::InternalError(fmt::format("{}: no object", method));
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DemoNode>> DemoNode::Start(const Options& options,
                                                          const NodeShape& shape,
                                                          const std::string& scratch_dir,
                                                          const std::atomic<bool>& stop) {
  auto node = std::unique_ptr<DemoNode>(new DemoNode(scratch_dir + "/node"));
  std::error_code error;
  std::filesystem::create_directories(node->folder_, error);
  const std::string config_path = node->folder_ + "/node.toml";
  EBB_RETURN_IF_ERROR(WriteTextFile(config_path, NodeConfigText(shape)));

  EBB_ASSIGN_OR_RETURN(node->process_,
                       experiments::ChildProcess::Start(
                           {"nbdkit", "-f", "-U", node->folder_ + "/nbd.sock", "--threads", "16",
                            options.plugin_path, "config=" + config_path},
                           scratch_dir + "/node.log", /*die_with_parent=*/!options.keep));
  Clock& clock = RealClock();
  const uint64_t deadline_ns = clock.MonotonicNs() + kStartTimeoutNs;
  while (true) {
    if (stop.load()) return absl::CancelledError("interrupted");
    if (!node->process_->IsRunning()) {
      return absl::InternalError(fmt::format("the node ended: {}", node->process_->LogTail()));
    }
    auto environment =
        env::NodeEnvironment::Connect({.socket_path = node->control_socket()}, clock);
    if (environment.ok()) {
      node->environment_ = std::move(*environment);
      return node;
    }
    if (clock.MonotonicNs() > deadline_ns) {
      return Annotate(environment.status(), "the node does not answer");
    }
    clock.SleepUntilNs(clock.MonotonicNs() + kPollNs);
  }
}

absl::Status DemoNode::Drain(uint64_t timeout_ms, const std::atomic<bool>& stop) {
  Clock& clock = RealClock();
  const uint64_t deadline_ns = clock.MonotonicNs() + timeout_ms * kNsPerMs;
  Json params = {{"start", true}};
  while (true) {
    EBB_ASSIGN_OR_RETURN(const Json result, Call(control_socket(), "node.drain", params));
    if (result.value("dirty_bytes", uint64_t{1}) == 0) break;
    if (stop.load()) return absl::CancelledError("interrupted");
    if (clock.MonotonicNs() > deadline_ns) {
      return absl::DeadlineExceededError(
          fmt::format("the node still holds {} dirty bytes after {} s of draining",
                      result.value("dirty_bytes", uint64_t{0}), timeout_ms / 1000));
    }
    clock.SleepUntilNs(clock.MonotonicNs() + kPollNs);
  }
  return Call(control_socket(), "node.drain", {{"start", false}}).status();
}

absl::Status DemoNode::CheckHealthy() {
  if (!process_->IsRunning()) {
    return absl::InternalError(fmt::format("the node ended: {}", process_->LogTail()));
  }
  EBB_ASSIGN_OR_RETURN(const Json metrics, Call(control_socket(), "metrics.get", Json::object()));
  const Json counters = metrics.value("counters", Json::object());
  for (const char* name : {"device_errors", "checksum_errors"}) {
    if (const uint64_t count = counters.value(name, uint64_t{0}); count > 0) {
      return absl::DataLossError(fmt::format("the node counted {} {}", count, name));
    }
  }
  return absl::OkStatus();
}

void DemoNode::Stop() {
  environment_.reset();
  process_->Stop(kStopGraceMs);
}

}  // namespace ebb::demo
