// The replayer onto a real node in this process.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/trace/trace_content.h"
#include "env/trace/node_target.h"
#include "env/trace/replayer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/metadata/metadata_store.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/local_node.h"
#include "tests/support/program.h"

namespace ebb::env {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using trace::ScratchFolder;
using trace::TraceOp;
using trace::TraceRecord;

constexpr uint64_t kBlock = 4096;
const std::string kEbb = std::string(EBB_BINARY_DIR) + "/bin/ebb";

class NodeReplayTest : public ::testing::Test {
 protected:
  NodeReplayTest() { std::filesystem::create_directory(folder_.File("node")); }

  std::string Write(const std::vector<TraceRecord>& records) {
    WriteTrace(folder_.File("t.ebbt"), {.volume_bytes = config_.volume_bytes}, records);
    return folder_.File("t.ebbt");
  }
  void Drain() {
    for (nlohmann::json state = AskNode(config_, "node.drain", {{"start", true}});
         state.value("dirty_bytes", 1) > 0;) {
      RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
      state = AskNode(config_, "node.drain");
      ASSERT_TRUE(state.is_object());
    }
  }
  // A node that has run and was stopped.
  void MakeNode() {
    const auto node = StartLocalNode(config_);
    ASSERT_NE(node, nullptr);
    ASSERT_TRUE(node->Close().ok());
  }
  std::vector<std::string> ReplayArguments(std::vector<std::string> arguments) {
    std::ofstream(folder_.File("node/node.toml")) << FormatNodeConfig(config_);
    arguments.insert(arguments.begin(), {"trace", "replay", folder_.File("t.ebbt")});
    return arguments;
  }
  ebb::testing::ProgramResult Replay(std::vector<std::string> arguments) {
    return ebb::testing::RunProgram(kEbb, ReplayArguments(std::move(arguments)));
  }
  void ExpectWholeAndClosedCleanly() {
    const auto check =
        ebb::testing::RunProgram(kEbb, {"node", "check", "--dir", folder_.File("node"), "--data"});
    EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
    EXPECT_THAT(check.out, HasSubstr("closed cleanly"));
  }
  void AddGroup() {
    storage::GroupConfig group = config_.groups[0];
    for (std::string* path : {&group.metadata_dir, &group.cache.path, &group.capacity[0].path}) {
      *path += "-2";
    }
    config_.groups.push_back(group);
  }
  static void MakeBlank(const storage::DeviceConfig& device) {
    std::filesystem::resize_file(device.path, 0);
    std::filesystem::resize_file(device.path, device.create_bytes);
  }
  ScratchFolder folder_;
  storage::NodeConfig config_ = LocalNodeConfig(folder_.File("node"));
};

std::vector<TraceRecord> SomeWrites() {
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 64; ++i) {
    records.push_back({.time_ns = i * 10'000,
                       .op = TraceOp::kWrite,
                       .fua = i % 8 == 0,
                       .offset = i * 16 * kBlock,
                       .bytes = 2 * kBlock,
                       .fingerprints = {i * 16 + 16, i * 16 + 1'000'000}});
  }
  return records;
}

TEST_F(NodeReplayTest, EveryKindOfRequestArrivesAndOutlivesTheNode) {
  std::vector<TraceRecord> records = SomeWrites();
  records.push_back({.time_ns = kNsPerMs, .op = TraceOp::kFlush});
  records.push_back({.time_ns = 50 * kNsPerMs, .op = TraceOp::kRead, .offset = 0, .bytes = kBlock});
  records.push_back({.time_ns = 50 * kNsPerMs,
                     .op = TraceOp::kTrim,
                     .offset = 16 * kBlock,
                     .bytes = 16 * kBlock});
  records.push_back({.time_ns = 50 * kNsPerMs,
                     .op = TraceOp::kWriteZeroes,
                     .offset = 32 * kBlock,
                     .bytes = 16 * kBlock});
  auto node = StartLocalNode(config_);
  ASSERT_NE(node, nullptr);

  {
    NodeTarget target(*node, 4);
    const auto report = ReplayTrace(Write(records), target, {});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->requests(), records.size());
    EXPECT_EQ(report->errors(), 0U) << report->first_error;
    EXPECT_EQ(report->kinds.at(TraceOp::kWrite).latency.count(), 64U);
  }
  ASSERT_TRUE(node->Close().ok());
  node.reset();
  node = StartLocalNode(config_);
  ASSERT_NE(node, nullptr);

  std::vector<std::byte> expected(2 * kBlock);
  std::vector<std::byte> read(2 * kBlock);
  trace::MakeContent(5 * 16 * kBlock, records[5].fingerprints, expected);
  ASSERT_TRUE(node->Read(5 * 16 * kBlock, read).ok());
  EXPECT_EQ(read, expected);
  for (const uint64_t cleared : {16 * kBlock, 32 * kBlock}) {
    ASSERT_TRUE(node->Read(cleared, read).ok());
    EXPECT_EQ(read, std::vector<std::byte>(2 * kBlock)) << cleared;
  }
  EXPECT_TRUE(node->Close().ok());
}

// Goal: what the trace says of contents is what the store's reduction finds.
// Method: half of the blocks repeat earlier ones, all shrink to a quarter; everything is destaged.
TEST_F(NodeReplayTest, DuplicatesAndCompressibilityAreTheRecordedOnes) {
  config_.initial.Set(storage::KnobId::kDedup, static_cast<int64_t>(storage::Dedup::kOn));
  config_.initial.Set(storage::KnobId::kCompression,
                      static_cast<int64_t>(storage::Compression::kLz4));
  std::vector<TraceRecord> records;
  constexpr uint64_t kBlocks = 1024;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t content = i % (kBlocks / 2) + 1;
    records.push_back({.time_ns = i * 1000,
                       .op = TraceOp::kWrite,
                       .offset = i * kBlock,
                       .bytes = kBlock,
                       .compressed_per_mille = 250,
                       .fingerprints = {content << 4 | 4}});
  }
  auto node = StartLocalNode(config_);
  ASSERT_NE(node, nullptr);

  {
    NodeTarget target(*node, 4);
    ASSERT_TRUE(
        ReplayTrace(Write(records), target, {.pace = ReplayOptions::Pace::kClosedLoop}).ok());
  }
  Drain();

  const nlohmann::json metrics = AskNode(config_, "metrics.get");
  const nlohmann::json& counters = metrics["counters"];
  EXPECT_EQ(counters["deduplicated_blocks"], kBlocks / 2);
  // Whatever the drain's pace left out of the reduction would stand in unreduced_blocks.
  EXPECT_EQ(counters["unreduced_blocks"], 0);
  const double stored =
      counters["destage_stored_bytes"].get<double>() / counters["destage_raw_bytes"].get<double>();
  EXPECT_NEAR(stored, 0.25, 1.0 / 16);
  EXPECT_TRUE(node->Close().ok());
}

TEST_F(NodeReplayTest, AClosedLoopKeepsItsDepthAndAFailedRequestIsCounted) {
  auto node = StartLocalNode(config_);
  ASSERT_NE(node, nullptr);
  NodeTarget target(*node, 8);
  std::vector<TargetRequest> requests(100);
  std::vector<std::byte> data(requests.size() * kBlock);
  for (size_t i = 0; i < requests.size(); ++i) {
    // The last one lies beyond the end.
    const uint64_t offset = i + 1 == requests.size() ? config_.volume_bytes : i * kBlock;
    requests[i] = {.offset = offset, .bytes = kBlock, .data = &data[i * kBlock]};
    ASSERT_TRUE(target.Submit(&requests[i]).ok());
  }

  std::vector<TargetRequest*> done;
  while (done.size() < requests.size()) ASSERT_TRUE(target.Wait(~uint64_t{0}, &done).ok());

  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].status.ok(), i + 1 < requests.size()) << i;
    EXPECT_GT(requests[i].done_ns, 0U);
  }
  EXPECT_EQ(AskNode(config_, "metrics.get")["ops"]["read"]["errors"], 1);
  done.clear();
  EXPECT_TRUE(target.Wait(0, &done).ok());
  EXPECT_TRUE(done.empty());
}

TEST_F(NodeReplayTest, TheCommandReplaysOntoAStoppedNodeAndClosesItCleanly) {
  MakeNode();
  Write(SomeWrites());

  const auto replay = Replay({"--dir", folder_.File("node"), "--closed-loop", "--depth", "4"});

  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, AllOf(HasSubstr("64 requests"), HasSubstr("0 errors")));
  ExpectWholeAndClosedCleanly();
}

// Goal: Ctrl-C, SIGTERM and `ebb node stop` end an endless replay with a report and a clean node.
TEST_F(NodeReplayTest, WhoeverInterruptsTheReplayFindsTheNodeClosedCleanly) {
  MakeNode();
  Write(SomeWrites());
  for (const int signal : {SIGINT, SIGTERM, 0}) {
    ebb::testing::BackgroundProgram replay(
        kEbb, ReplayArguments({"--dir", folder_.File("node"), "--duration", "1h"}),
        folder_.File("replay.log"));
    storage::JsonRpcClient client(config_.control_socket);
    for (uint64_t writes = 0; writes == 0;) {
      // No answer yet: the node is being opened.
      const auto answer = client.Call("metrics.get");
      if (answer.ok()) writes = nlohmann::json::parse(*answer)["ops"]["write"]["ops"];
      ASSERT_TRUE(replay.IsRunning()) << replay.Log();
      RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
    }
    if (signal == 0) {
      AskNode(config_, "node.stop");
    } else {
      replay.Signal(signal);
    }

    EXPECT_NE(replay.Wait(), 0);
    EXPECT_THAT(replay.Log(), AllOf(HasSubstr("0 errors"), HasSubstr("interrupted")));
    ExpectWholeAndClosedCleanly();
  }
}

TEST_F(NodeReplayTest, ANodeThatRunsIsRefused) {
  auto node = StartLocalNode(config_);
  ASSERT_NE(node, nullptr);
  Write(SomeWrites());

  const auto replay = Replay({"--config", folder_.File("node/node.toml")});

  EXPECT_NE(replay.exit_code, 0);
  EXPECT_THAT(replay.err, HasSubstr("another node has it open"));
  EXPECT_EQ(AskNode(config_, "metrics.get")["ops"]["write"]["ops"], 0);
  EXPECT_TRUE(node->Close().ok());
}

TEST_F(NodeReplayTest, ANodeThatNeverStartedIsRefusedAndNothingIsMade) {
  Write(SomeWrites());

  const auto replay = Replay({"--dir", folder_.File("node")});

  EXPECT_NE(replay.exit_code, 0);
  EXPECT_THAT(replay.err, HasSubstr("never started"));
  const std::filesystem::directory_iterator made(folder_.File("node"));
  EXPECT_EQ(std::distance(begin(made), end(made)), 1);  // its node.toml
}

// Goal: no device is formatted, whatever the rest looks like.
// Method: the devices of a node of one and of two groups are replaced by blank ones, then the
// metadata too by empty ones, as after a restore that went wrong.
TEST_F(NodeReplayTest, BlankDevicesStayBlank) {
  Write(SomeWrites());
  for (const size_t groups : {1, 2}) {
    if (groups == 2) AddGroup();
    MakeNode();
    for (const storage::GroupConfig& group : config_.groups) {
      MakeBlank(group.cache);
      MakeBlank(group.capacity[0]);
    }
    const auto without_devices = Replay({"--dir", folder_.File("node")});
    for (const storage::GroupConfig& group : config_.groups) {
      std::filesystem::remove_all(group.metadata_dir);
      ASSERT_TRUE(storage::OpenRocksMetadata(group.metadata_dir).ok());
    }
    const auto without_metadata = Replay({"--dir", folder_.File("node")});

    EXPECT_NE(without_devices.exit_code, 0);
    EXPECT_THAT(without_devices.err, HasSubstr("is blank, but the node"));
    EXPECT_NE(without_metadata.exit_code, 0);
    EXPECT_THAT(without_metadata.err,
                HasSubstr(groups == 1 ? "no node on these devices yet" : "was never made whole"));
    for (const storage::GroupConfig& group : config_.groups) {
      EXPECT_EQ(trace::ReadFile(group.cache.path), std::string(group.cache.create_bytes, '\0'));
      EXPECT_EQ(trace::ReadFile(group.capacity[0].path),
                std::string(group.capacity[0].create_bytes, '\0'));
    }
    std::filesystem::remove_all(folder_.File("node"));
    std::filesystem::create_directory(folder_.File("node"));
  }
}

TEST_F(NodeReplayTest, ANodeOfTwoGroupsIsReplayedOntoButNotOneOfAnotherSize) {
  AddGroup();
  MakeNode();
  Write(SomeWrites());

  const auto replay = Replay({"--dir", folder_.File("node")});
  config_.volume_bytes /= 2;
  const auto another = Replay({"--dir", folder_.File("node")});

  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, AllOf(HasSubstr("64 requests"), HasSubstr("0 errors")));
  EXPECT_NE(another.exit_code, 0);
  EXPECT_THAT(another.err, HasSubstr("the volume has"));
}

}  // namespace
}  // namespace ebb::env
