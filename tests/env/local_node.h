// A whole node on files in a folder, in the test's own process.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/node_open.h"
#include "storage-backend/control/node_server.h"

namespace ebb::env {

// So many times as fast as the machine's: who measures with it sees rates as many times lower.
class ScaledClock final : public Clock {
 public:
  explicit ScaledClock(double factor) : factor_(factor) {}
  uint64_t MonotonicNs() override {
    return Scaled(RealClock().MonotonicNs(), factor_) + jumped_ns_;
  }
  int64_t WallMs() override { return RealClock().WallMs(); }
  void SleepUntilNs(uint64_t deadline_ns) override {
    RealClock().SleepUntilNs(
        Scaled(std::max(deadline_ns, begin_ns_ + jumped_ns_) - jumped_ns_, 1 / factor_));
  }
  // So much time passes at once.
  void JumpNs(uint64_t ns) { jumped_ns_ += ns; }

 private:
  uint64_t Scaled(uint64_t time_ns, double factor) const {
    return begin_ns_ + static_cast<uint64_t>(static_cast<double>(time_ns - begin_ns_) * factor);
  }

  const double factor_;
  std::atomic<uint64_t> jumped_ns_{0};
  const uint64_t begin_ns_ = RealClock().MonotonicNs();
};

inline storage::NodeConfig LocalNodeConfig(const std::string& folder) {
  storage::NodeConfig config;
  config.name = "local";
  config.device_class = "disk";
  config.volume_bytes = 32 * kMiB;
  config.control_socket = folder + "/control.sock";
  config.state_dir = folder + "/state";
  config.nbd.socket = folder + "/nbd.sock";
  config.groups.resize(1);
  config.groups[0].metadata_dir = folder + "/metadata";
  config.groups[0].cache = {.path = folder + "/cache.img", .create_bytes = 32 * kMiB};
  config.groups[0].capacity.push_back(
      {.path = folder + "/capacity.img", .create_bytes = 64 * kMiB});
  return config;
}

inline std::unique_ptr<storage::NodeServer> StartLocalNode(const storage::NodeConfig& config) {
  auto node = storage::OpenNode(config, {});
  EXPECT_TRUE(node.ok()) << node.status();
  return node.ok() ? *std::move(node) : nullptr;
}

// A call on the node's control socket; null, and a failure, when it answers with an error.
inline nlohmann::json AskNode(const storage::NodeConfig& config, const std::string& method,
                              const nlohmann::json& params = nlohmann::json::object()) {
  storage::JsonRpcClient client(config.control_socket);
  const auto answer = client.Call(method, params.dump());
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? nlohmann::json::parse(*answer) : nlohmann::json();
}

}  // namespace ebb::env
