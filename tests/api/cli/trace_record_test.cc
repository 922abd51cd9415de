// `ebb trace record` at a real node in this process.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "fmt/format.h"
#include "storage-backend/control/stream_sampler.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/local_node.h"
#include "tests/support/program.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;

class TraceRecordTest : public ::testing::Test {
 protected:
  // `clock_factor`: how the node's clock runs, which decides what it thinks of the rate.
  void Start(double clock_factor) {
    clock_ = std::make_unique<env::ScaledClock>(clock_factor);
    config_.volume_bytes = kGiB;
    config_.groups[0].capacity[0].create_bytes = kGiB;
    storage::NodeServerOptions options;
    options.clock = clock_.get();
    auto node = storage::OpenNode(config_, std::move(options));
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
  }
  ~TraceRecordTest() override {
    if (node_ == nullptr) return;
    EXPECT_TRUE(node_->Close().ok());
  }

  // Until then nothing is recorded.
  std::unique_ptr<testing::BackgroundProgram> StartRecording() {
    auto recording = std::make_unique<testing::BackgroundProgram>(
        std::string(EBB_BINARY_DIR) + "/bin/ebb",
        std::vector<std::string>{"trace", "record", "--socket", config_.control_socket, path_},
        folder_.File("record.log"));
    while (!std::filesystem::exists(path_)) {
      EXPECT_TRUE(recording->IsRunning()) << recording->Log();
      RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
    }
    return recording;
  }
  void Read(uint64_t count) {
    Rng rng(1);
    std::vector<std::byte> block(4096);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t offset = rng.Below(config_.volume_bytes / 4096) * 4096;
      ASSERT_TRUE(node_->Read(offset, block).ok());
    }
  }

  const trace::ScratchFolder folder_;
  const std::string path_ = folder_.File("recorded.ebbt");
  storage::NodeConfig config_ = env::LocalNodeConfig(folder_.File(""));
  std::unique_ptr<env::ScaledClock> clock_;
  std::unique_ptr<storage::NodeServer> node_;
};

TEST_F(TraceRecordTest, SigtermLeavesAWholeFileWithEveryRequest) {
  Start(/*clock_factor=*/100);
  Read(50);  // before: not recorded
  const auto recording = StartRecording();
  Read(2'000);

  recording->Signal(SIGTERM);

  EXPECT_EQ(recording->Wait(), 0) << recording->Log();
  const trace::ReadBack back = trace::ReadTrace(path_);
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.records.size(), 2'000U);
  EXPECT_THAT(recording->Log(), HasSubstr("2000 requests recorded, 0 lost; sampled regions: all"));
}

// A node that is asked much tells the requests to some of its regions: these, and how many of the
// regions they are, are what the recording has.
TEST_F(TraceRecordTest, ASampledStreamIsRecordedAsSuch) {
  Start(/*clock_factor=*/0.001);
  Read(8'001);  // so many in its second: the node begins to choose
  const auto recording = StartRecording();
  Read(8'000);

  recording->Signal(SIGTERM);

  EXPECT_EQ(recording->Wait(), 0) << recording->Log();
  EXPECT_THAT(recording->Log(), HasSubstr("0 lost; sampled regions: down to 1/8"));
  const trace::ReadBack back = trace::ReadTrace(path_);
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_NEAR(static_cast<double>(back.records.size()), 1'000, 150);
  for (const trace::TraceRecord& record : back.records) {
    const uint64_t region = record.offset / storage::StreamSampler::kRegionBytes;
    ASSERT_TRUE(storage::StreamSampler::InSample(region, 3)) << record.offset;
  }
}

// Goal: a busy node has always more to tell; that keeps nobody from ending the recording.
TEST_F(TraceRecordTest, ARecordingEndsAlthoughRequestsDoNot) {
  Start(/*clock_factor=*/1000);
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (int i = 0; i < 2; ++i) {
    load.emplace_back([&] {
      std::vector<std::byte> block(4096);
      while (!stop) ASSERT_TRUE(node_->Read(0, block).ok());
    });
  }
  const auto recording = StartRecording();

  recording->Signal(SIGTERM);
  const int exit_code = recording->Wait();
  stop = true;
  for (std::thread& thread : load) thread.join();

  EXPECT_EQ(exit_code, 0) << recording->Log();
  EXPECT_TRUE(trace::ReadTrace(path_).status.ok());
}

// What the node had to forget before it was asked for is told, to the request.
TEST_F(TraceRecordTest, LostRequestsAreCounted) {
  Start(/*clock_factor=*/1000);
  const auto recording = StartRecording();
  recording->Signal(SIGSTOP);
  constexpr uint64_t kRequests = 70'000;  // the node keeps 65,536
  Read(kRequests);

  recording->Signal(SIGCONT);
  recording->Signal(SIGTERM);

  EXPECT_EQ(recording->Wait(), 0) << recording->Log();
  const trace::ReadBack back = trace::ReadTrace(path_);
  ASSERT_TRUE(back.status.ok()) << back.status;
  // Some may have been asked for before the stop was felt.
  EXPECT_LT(back.records.size(), kRequests);
  EXPECT_THAT(recording->Log(),
              HasSubstr(fmt::format("{} requests recorded, {} lost", back.records.size(),
                                    kRequests - back.records.size())));
}

}  // namespace
}  // namespace ebb::cli
