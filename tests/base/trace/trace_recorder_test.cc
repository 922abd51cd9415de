#include "base/trace/trace_recorder.h"

#include <thread>
#include <vector>

#include "base/trace/trace_content.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"

namespace ebb::trace {
namespace {

TEST(TraceRecorderTest, RecordsRequestsWithTimeAndContent) {
  const ScratchFolder folder;
  ManualClock clock;
  auto recorder = TraceRecorder::Create(folder.File("a"), 1 << 20, "test", clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const std::vector<std::byte> data(8192, std::byte{'x'});

  clock.AdvanceNs(1'000'000);
  (*recorder)->Record(TraceOp::kWrite, true, 4096, data.size(), data);
  clock.AdvanceNs(500);
  (*recorder)->Record(TraceOp::kRead, false, 0, 512);
  (*recorder)->Record(TraceOp::kFlush, false, 0, 0);
  ASSERT_TRUE((*recorder)->Close().ok());

  const ReadBack back = ReadTrace(folder.File("a"));
  ASSERT_TRUE(back.status.ok()) << back.status;
  ASSERT_EQ(back.records.size(), 3U);
  const WriteContent content = DescribeContent(4096, data);
  EXPECT_EQ(back.records[0], (TraceRecord{.time_ns = 0,
                                          .op = TraceOp::kWrite,
                                          .fua = true,
                                          .offset = 4096,
                                          .bytes = 8192,
                                          .compressed_per_mille = content.compressed_per_mille,
                                          .fingerprints = content.fingerprints}));
  EXPECT_EQ(back.records[1].time_ns, 500U);
  EXPECT_EQ(back.records[2].op, TraceOp::kFlush);
}

TEST(TraceRecorderTest, NothingIsRecordedAfterClose) {
  const ScratchFolder folder;
  auto recorder = TraceRecorder::Create(folder.File("a"), 1 << 20, "test");
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  (*recorder)->Record(TraceOp::kFlush, false, 0, 0);
  ASSERT_TRUE((*recorder)->Close().ok());

  (*recorder)->Record(TraceOp::kFlush, false, 0, 0);

  EXPECT_TRUE((*recorder)->Close().ok());
  EXPECT_EQ((*recorder)->record_count(), 1U);
  EXPECT_EQ(ReadTrace(folder.File("a")).records.size(), 1U);
}

TEST(TraceRecorderTest, ManyThreadsRecordInOrderOfTime) {
  const ScratchFolder folder;
  auto recorder = TraceRecorder::Create(folder.File("a"), 1 << 20, "test");
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const std::vector<std::byte> data(4096, std::byte{'x'});

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5000; ++n) {
        (*recorder)->Record(TraceOp::kWrite, false, 0, data.size(), data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE((*recorder)->Close().ok());

  const ReadBack back = ReadTrace(folder.File("a"));
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.records.size(), 20'000U);
  EXPECT_TRUE(std::ranges::is_sorted(back.records, {}, &TraceRecord::time_ns));
}

TEST(TraceRecorderTest, AnImpossibleRequestStopsTheRecordingAndSaysSo) {
  const ScratchFolder folder;
  auto recorder = TraceRecorder::Create(folder.File("a"), 1 << 20, "test");
  ASSERT_TRUE(recorder.ok()) << recorder.status();

  (*recorder)->Record(TraceOp::kRead, false, ~uint64_t{0}, 4096);

  EXPECT_FALSE((*recorder)->status().ok());
  EXPECT_FALSE((*recorder)->Close().ok());
}

}  // namespace
}  // namespace ebb::trace
