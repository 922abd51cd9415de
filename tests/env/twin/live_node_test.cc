// A twin's load and model taken from a real node in this process.
#include "env/twin/live_node.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/control/json_rpc_client.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/local_node.h"

namespace ebb::twin {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlock = 4096;

class LiveNodeTest : public ::testing::Test {
 protected:
  LiveNodeTest() {
    config_.volume_bytes = kGiB;
    config_.groups[0].cache.create_bytes = 256 * kMiB;
    config_.groups[0].capacity[0].create_bytes = kGiB;
  }
  ~LiveNodeTest() override {
    StopLoad();
    if (node_ == nullptr) return;
    EXPECT_TRUE(node_->Close().ok());
  }

  void Start(Clock& clock = RealClock()) {
    storage::NodeServerOptions options;
    options.clock = &clock;
    options.observer = [this](const storage::StreamRecord& record, std::span<const std::byte>) {
      const std::lock_guard lock(mutex_);
      seen_.push_back(record);
    };
    auto node = storage::OpenNode(config_, std::move(options));
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
  }
  // Reads (70 %) and writes of a block at random places, at a pace.
  void StartLoad(uint64_t ops_per_s) {
    load_ = std::thread([this, ops_per_s] {
      Rng rng(3);
      std::vector<std::byte> block(kBlock, std::byte{5});
      const uint64_t begin_ns = RealClock().MonotonicNs();
      for (uint64_t i = 0; !stop_; ++i) {
        RealClock().SleepUntilNs(begin_ns + i * kNsPerS / ops_per_s);
        const uint64_t offset = rng.Below(config_.volume_bytes / kBlock) * kBlock;
        const bool read = rng.Chance(0.7);
        const absl::Status status =
            read ? node_->Read(offset, block) : node_->Write(offset, block, false);
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  void StopLoad() {
    stop_ = true;
    if (load_.joinable()) load_.join();
  }
  absl::StatusOr<LiveNode> WatchIt(const WatchOptions& options, Clock& clock = RealClock()) {
    storage::JsonRpcClient client(config_.control_socket, 60 * kNsPerS);
    return WatchNode(client, options, clock);
  }

  const trace::ScratchFolder folder_;
  storage::NodeConfig config_ = env::LocalNodeConfig(folder_.File(""));
  std::mutex mutex_;
  std::vector<storage::StreamRecord> seen_;  // every request
  std::unique_ptr<storage::NodeServer> node_;
  std::atomic<bool> stop_ = false;
  std::thread load_;
};

// Goal: what the twin is fed is what the node was asked, though the node told a sample only.
// Method: everything is also seen by the node's observer; rates, shares and the working set of both
// may differ by five standard deviations of a sample of that size.
TEST_F(LiveNodeTest, TheLoadOfTheSampleAgreesWithTheWholeStream) {
  env::ScaledClock clock(0.25);
  Start(clock);
  StartLoad(/*ops_per_s=*/8'000);  // 32,000 by the node's clock: it tells an eighth

  const auto live = WatchIt({.minutes = 0.01, .listen_seconds = 0.5}, clock);
  StopLoad();

  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_GT(live->load.time_divisor(), 1U);
  double requests = 0;
  double reads = 0;
  std::set<uint64_t> blocks;
  for (const storage::StreamRecord& record : seen_) {
    if (record.time_ns < live->begin_ns || record.time_ns >= live->end_ns) continue;
    ++requests;
    reads += record.op == 'R' ? 1 : 0;
    blocks.insert(record.offset / kBlock);
  }
  double sample_reads = 0;
  std::set<uint32_t> sample_blocks;
  for (const Request& request : live->load.requests()) {
    sample_reads += request.kind == RequestKind::kRead ? 1 : 0;
    sample_blocks.insert(request.first_block);
  }
  const auto sampled = static_cast<double>(live->load.request_count());
  const double deviation = 1 / std::sqrt(sampled);
  const double rate = requests / live->seconds();
  EXPECT_NEAR(sampled * 1e9 / static_cast<double>(live->load.duration_ns()), rate,
              5 * deviation * rate);
  EXPECT_NEAR(sample_reads / sampled, reads / requests, 5 * 0.5 * deviation);
  const auto distinct = static_cast<double>(blocks.size());
  EXPECT_NEAR(static_cast<double>(sample_blocks.size()) * live->load.divisor(), distinct,
              5 * deviation * distinct);
}

TEST_F(LiveNodeTest, TheModelIsTheNodeAsItIs) {
  config_.groups[0].cache.shape = "nvme";
  config_.groups[0].cache.shape_scale = 2;
  config_.groups[0].capacity[0].shape = "qlc-ssd";
  config_.nbd.threads = 7;
  config_.initial.Set(storage::KnobId::kDestageWatermark, 70);
  Start();
  StartLoad(/*ops_per_s=*/300);

  const auto live = WatchIt({.minutes = 0.01, .listen_seconds = 0.5});

  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_EQ(live->name, "local");
  EXPECT_EQ(live->load.time_divisor(), 1U);
  EXPECT_EQ(live->load.volume_bytes(), kGiB);
  EXPECT_EQ(live->setting, config_.initial);
  const NodeModel& model = live->model;
  EXPECT_EQ(model.volume_bytes, kGiB);
  EXPECT_EQ(model.cache_bytes, 256 * kMiB);
  EXPECT_EQ(model.cache_device, "nvme");
  EXPECT_EQ(model.cache_speed, 2);
  EXPECT_EQ(model.capacity_bytes, kGiB);
  EXPECT_EQ(model.capacity_device, "qlc-ssd");
  EXPECT_EQ(model.capacity_count, 1);
  EXPECT_EQ(model.workers, 7);
  EXPECT_FALSE(model.prefilled);
  EXPECT_GT(model.host_memory_bytes, 0U);
  EXPECT_TRUE(live->notes.empty());
  EXPECT_EQ(live->closed_loop_clients, 0);
  EXPECT_GT(live->measured.read.ops, 0U);
  EXPECT_GT(live->measured.read.p99_ns, 0);
}

TEST_F(LiveNodeTest, WhatTheNodeRemembersIsNotWaitedForAgain) {
  env::ScaledClock clock(1);
  Start(clock);
  StartLoad(/*ops_per_s=*/1'000);
  while (node_->requests_begun() < 100) {
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
  }
  clock.JumpNs(600 * kNsPerS);

  const auto live = WatchIt({.minutes = 5, .listen_seconds = 0.2}, clock);

  ASSERT_TRUE(live.ok()) << live.status();
  // The last five of ten minutes, although it was measured only for a moment.
  EXPECT_NEAR(live->seconds(), 300, 1e-6);
  EXPECT_LT(live->measured.seconds, 200);
  EXPECT_EQ(live->dropped, 0U);
}

TEST_F(LiveNodeTest, ANodeWithoutLoadIsRefused) {
  Start();

  const auto live = WatchIt({.minutes = 0.01, .listen_seconds = 0.5});

  EXPECT_EQ(live.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(live.status().message(), HasSubstr("idle"));
}

TEST_F(LiveNodeTest, ASettingThatChangesMeanwhileIsRefused) {
  Start();
  StartLoad(/*ops_per_s=*/300);
  bool changed = false;
  const auto change = [&](double, size_t) {
    if (std::exchange(changed, true)) return;
    const uint64_t version = env::AskNode(config_, "knobs.get")["version"];
    env::AskNode(config_, "knobs.set",
                 {{"setting", {{"destage_watermark", 40}}},
                  {"version", version},
                  {"actor", "test"},
                  {"reason", "test"}});
  };

  const auto live = WatchIt({.minutes = 0.02, .listen_seconds = 1, .on_progress = change});

  EXPECT_TRUE(changed);
  EXPECT_EQ(live.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(live.status().message(), HasSubstr("setting changed"));
}

TEST_F(LiveNodeTest, StopEndsTheListening) {
  Start();
  const std::atomic<bool> stop = true;

  EXPECT_EQ(WatchIt({.stop = &stop}).status().code(), absl::StatusCode::kCancelled);
}

TEST(ModelOfTest, WhatIsNotToldIsAssumedWithANote) {
  const env::NodeMachine machine = {.devices = {{.role = "cache", .size_bytes = kGiB},
                                                {.role = "capacity 1", .size_bytes = 4 * kGiB},
                                                {.role = "capacity 2", .size_bytes = 2 * kGiB}},
                                    .threads = 16};
  env::NodeInfo info;
  info.info.device_class = "sata-ssd";
  info.volume_bytes = kGiB;
  env::NodeSnapshot now;
  now.gauges["logical_bytes"] = 0.75 * kGiB;
  now.counters["destage_raw_bytes"] = 1000;
  now.counters["destage_stored_bytes"] = 300;
  std::vector<std::string> notes;

  const auto model = ModelOf(machine, info, now, notes);

  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->cache_device, "nvme");
  EXPECT_EQ(model->capacity_device, "sata-ssd");
  EXPECT_EQ(model->capacity_count, 2);
  EXPECT_EQ(model->capacity_bytes, 2 * kGiB);  // of the smallest
  EXPECT_TRUE(model->prefilled);
  EXPECT_EQ(model->prefill_compressed_per_mille, 300);
  EXPECT_EQ(notes.size(), 2U);
}

TEST(ModelOfTest, SeveralDiskGroupsAreRefused) {
  std::vector<std::string> notes;

  const auto model = ModelOf({.devices = {}, .groups = 2}, {}, {}, notes);

  EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(model.status().message(), HasSubstr("has 2"));
}

}  // namespace
}  // namespace ebb::twin
