// A whole node on files in a folder, in the test's own process.
#pragma once

#include <memory>
#include <string>

#include "base/units.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/node_open.h"
#include "storage-backend/control/node_server.h"

namespace ebb::env {

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
