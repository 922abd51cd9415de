// What a node tells of its requests becomes a trace.
#include "api/cli/stream_recorder.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "tests/base/trace/trace_test_util.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;
using trace::TraceOp;
using trace::TraceRecord;

class StreamRecorderTest : public ::testing::Test {
 protected:
  StreamRecorderTest() {
    auto writer = trace::TraceWriter::Create(path_, {.volume_bytes = 1 << 30});
    EXPECT_TRUE(writer.ok()) << writer.status();
    recorder_ = std::make_unique<StreamRecorder>(*std::move(writer));
  }
  absl::Status Take(const std::string& rows, const std::string& rest) {
    const auto slice = env::DecodeStream("{\"records\":[" + rows + "]," + rest + "}");
    EXPECT_TRUE(slice.ok()) << slice.status();
    return recorder_->Take(*slice);
  }
  std::vector<TraceRecord> Finish() {
    EXPECT_TRUE(recorder_->Close().ok());
    return trace::ReadTrace(path_).records;
  }

  const trace::ScratchFolder folder_;
  const std::string path_ = folder_.File("t.ebbt");
  std::unique_ptr<StreamRecorder> recorder_;
};

TEST_F(StreamRecorderTest, RequestsAreWrittenInTheOrderInWhichTheyBegan) {
  const absl::Status taken =
      Take(R"([1000,"W",4096,4096,50,81985529216486895,300],[400,"R",0,8192,900],[1500,"F",0,0,7])",
           R"("next":17,"dropped":2,"sample_rate":0.125)");

  ASSERT_TRUE(taken.ok()) << taken;
  const std::vector<TraceRecord> records = Finish();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0], (TraceRecord{.time_ns = 0, .bytes = 8192, .latency_ns = 900}));
  EXPECT_EQ(records[1].time_ns, 600U);
  EXPECT_EQ(records[1].compressed_per_mille, 300U);
  EXPECT_EQ(records[1].fingerprints, (std::vector<uint64_t>{81985529216486895ULL << 4 | 4}));
  EXPECT_EQ(records[2].op, TraceOp::kFlush);
  EXPECT_EQ(recorder_->counts().dropped, 2U);
  EXPECT_EQ(recorder_->counts().sample_rate_min, 0.125);
}

TEST_F(StreamRecorderTest, ALongRequestThatEndsLateIsPutBackIntoItsPlace) {
  ASSERT_TRUE(Take(R"([1000000000,"R",0,512,10],[2000000000,"R",512,512,10])",
                   R"("next":2,"dropped":0,"sample_rate":1)")
                  .ok());
  ASSERT_TRUE(
      Take(R"([1500000000,"R",1024,512,900000000])", R"("next":3,"dropped":0,"sample_rate":1)")
          .ok());

  const std::vector<TraceRecord> records = Finish();

  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[1].offset, 1024U);
  EXPECT_EQ(records[1].time_ns, 500 * kNsPerMs);
  EXPECT_EQ(recorder_->counts().late, 0U);
}

TEST_F(StreamRecorderTest, ContentOfWhichOnlyAPartIsToldIsNotKnown) {
  ASSERT_TRUE(
      Take(R"([1000,"W",0,8192,50,5,300])", R"("next":1,"dropped":0,"sample_rate":1)").ok());
  const std::vector<TraceRecord> records = Finish();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_FALSE(records[0].HasContent());
}

}  // namespace
}  // namespace ebb::cli
