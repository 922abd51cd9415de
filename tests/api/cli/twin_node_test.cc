// `ebb twin ... --node` against a real node in this process.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/local_node.h"
#include "tests/support/program.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

class TwinNodeTest : public ::testing::Test {
 protected:
  TwinNodeTest() {
    config_.groups[0].cache.shape = "nvme";
    config_.groups[0].capacity[0].shape = "sata-ssd";
    node_ = env::StartLocalNode(config_);
  }
  ~TwinNodeTest() override {
    stop_ = true;
    if (load_.joinable()) load_.join();
    if (node_ == nullptr) return;
    EXPECT_TRUE(node_->Close().ok());
  }

  // 400 requests of a block a second, half of them writes, at places that come again.
  void StartLoad() {
    load_ = std::thread([this] {
      Rng rng(3);
      std::vector<std::byte> block(4096, std::byte{5});
      const uint64_t begin_ns = RealClock().MonotonicNs();
      for (uint64_t i = 0; !stop_; ++i) {
        RealClock().SleepUntilNs(begin_ns + i * kNsPerS / 400);
        const uint64_t offset = rng.Below(1024) * 4096;
        const absl::Status status =
            rng.Chance(0.5) ? node_->Read(offset, block) : node_->Write(offset, block, false);
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  testing::ProgramResult Twin(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "twin");
    for (const std::string& more :
         {std::string("--node"), config_.control_socket, std::string("--minutes"),
          std::string("0.02"), std::string("--listen"), std::string("1")}) {
      arguments.push_back(more);
    }
    return testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", std::move(arguments));
  }

  const trace::ScratchFolder folder_;
  storage::NodeConfig config_ = env::LocalNodeConfig(folder_.File(""));
  std::unique_ptr<storage::NodeServer> node_;
  std::atomic<bool> stop_ = false;
  std::thread load_;
};

TEST_F(TwinNodeTest, RunShowsTheTwinBesideTheNode) {
  StartLoad();

  const auto run = Twin({"run", "--json"});

  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["node"], "local");
  EXPECT_EQ(json["sampled_one_in"], 1);
  EXPECT_EQ(json["lost_requests"], 0);
  EXPECT_TRUE(json["changed"].is_null());
  // The same requests on both sides, but for those at the ends of the time.
  for (const char* op : {"read", "write"}) {
    const double node = json["measured"][op]["ops_per_s"];
    const double twin = json["twin"][op]["ops_per_s"];
    EXPECT_GT(node, 0) << op;
    EXPECT_NEAR(twin, node, 0.1 * node) << op;
    EXPECT_GT(json["measured"][op]["p99_us"], 0.0);
    EXPECT_GT(json["twin"][op]["p99_us"], 0.0);
  }
  EXPECT_THAT(run.err, HasSubstr("all of its regions"));
}

TEST_F(TwinNodeTest, RunShowsWhatAnotherSettingWouldDo) {
  StartLoad();

  const auto json = Twin({"run", "--json", "--set", "nvme_read_share=90"});
  const auto table = Twin({"run", "--set", "nvme_read_share=90"});

  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto seen = nlohmann::json::parse(json.out);
  // Less room for writes is fuller.
  EXPECT_GT(seen["changed"]["log_fill"].get<double>(), 2 * seen["twin"]["log_fill"].get<double>());
  EXPECT_THAT(table.out, HasSubstr("twin with --set"));
  EXPECT_THAT(table.out, HasSubstr("read p50"));
}

TEST_F(TwinNodeTest, SweepBeginsWithTheNodesOwnSetting) {
  StartLoad();

  const auto sweep = Twin({"sweep", "--json", "--count", "4", "--measure", "1", "--settle", "0.5"});

  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_THAT(sweep.err, HasSubstr("processor costs by what the node shows now"));
  const auto json = nlohmann::json::parse(sweep.out);
  EXPECT_EQ(json["comparison"]["node"], "local");
  EXPECT_EQ(json["best"].size(), 5U);
  EXPECT_THAT(sweep.out, HasSubstr("the base setting"));
}

TEST_F(TwinNodeTest, WhatTheNodeTellsCannotBeToldAsWell) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--trace", "x.ebbt"},
                                               {"--cache-size", "1G"},
                                               {"--rate", "5"},
                                               {"--preset", "disk"}}) {
    std::vector<std::string> arguments = {"run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto run = Twin(arguments);
    EXPECT_EQ(run.exit_code, 2) << more[0];
    EXPECT_THAT(run.err, HasSubstr(more[0]));
  }
}

TEST_F(TwinNodeTest, NoNodeThereIsNotReachable) {
  const auto run = testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb",
                                       {"twin", "run", "--node", folder_.File("nobody.sock")});

  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("nobody.sock"));
}

}  // namespace
}  // namespace ebb::cli
