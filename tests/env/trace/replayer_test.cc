// The replayer against a simulated target in simulated time.
#include "env/trace/replayer.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "base/trace/trace_content.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"

namespace ebb::env {
namespace {

using testing::HasSubstr;
using trace::SampleRecords;
using trace::ScratchFolder;
using trace::TraceOp;
using trace::TraceRecord;

// Answers each request `service_ns` after it was sent, and remembers what came.
class SimulatedTarget final : public BlockTarget {
 public:
  SimulatedTarget(ManualClock& clock, uint64_t size_bytes, uint64_t service_ns)
      : clock_(clock), size_bytes_(size_bytes), service_ns_(service_ns) {}

  struct Sent {
    uint64_t time_ns;
    TraceOp op;
    uint64_t offset;
    uint64_t bytes;
    std::vector<std::byte> data;
  };

  uint64_t size_bytes() const override { return size_bytes_; }
  uint64_t RequestBytesMax(TraceOp) const override { return request_bytes_max; }
  bool Supports(TraceOp op) const override { return op != unsupported; }
  absl::Status Submit(TargetRequest* request) override {
    clock_.AdvanceNs(submit_ns);
    if (sent.size() == dies_after) return absl::UnavailableError("gone");
    Sent entry{clock_.MonotonicNs(), request->op, request->offset, request->bytes, {}};
    if (request->op == TraceOp::kWrite) {
      entry.data.assign(request->data, request->data + request->bytes);
    }
    sent.push_back(entry);
    flying_.emplace(clock_.MonotonicNs() + service_ns_, request);
    most_in_flight = std::max(most_in_flight, flying_.size());
    return absl::OkStatus();
  }
  absl::Status Wait(uint64_t deadline_ns, std::vector<TargetRequest*>* done) override {
    const uint64_t first_ns = flying_.empty() ? ~uint64_t{0} : flying_.begin()->first;
    clock_.SleepUntilNs(std::min(first_ns, deadline_ns));
    while (!flying_.empty() && flying_.begin()->first <= clock_.MonotonicNs()) {
      TargetRequest* request = flying_.begin()->second;
      request->done_ns = flying_.begin()->first;
      request->status =
          request->op == failing ? absl::InternalError("bad sector") : absl::OkStatus();
      flying_.erase(flying_.begin());
      done->push_back(request);
    }
    return absl::OkStatus();
  }
  std::string Describe() const override { return "simulated"; }

  std::vector<Sent> sent;
  size_t most_in_flight = 0;
  uint64_t request_bytes_max = 64 * kGiB;
  TraceOp unsupported = static_cast<TraceOp>(0);
  TraceOp failing = static_cast<TraceOp>(0);
  size_t dies_after = ~size_t{0};
  uint64_t submit_ns = 0;  // what a Submit takes

 private:
  ManualClock& clock_;
  const uint64_t size_bytes_;
  const uint64_t service_ns_;
  std::multimap<uint64_t, TargetRequest*> flying_;
};

class ReplayerTest : public testing::Test {
 protected:
  std::string Write(const std::vector<TraceRecord>& records) {
    WriteTrace(folder_.File("t.ebbt"), {.volume_bytes = kGiB}, records);
    return folder_.File("t.ebbt");
  }
  // `count` 4 KiB reads, one each `gap_ns`.
  std::string WriteReads(size_t count, uint64_t gap_ns) {
    std::vector<TraceRecord> records;
    for (size_t i = 0; i < count; ++i) {
      records.push_back({.time_ns = i * gap_ns, .offset = i * 4096, .bytes = 4096});
    }
    return Write(records);
  }

  ScratchFolder folder_;
  ManualClock clock_;
  SimulatedTarget target_{clock_, 64 * kGiB, 100 * kNsPerUs};
};

TEST_F(ReplayerTest, SendsEveryRequestOnceInOrder) {
  const std::vector<TraceRecord> records = SampleRecords(3000, 1);

  const auto report = ReplayTrace(Write(records), target_, {}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(target_.sent.size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(target_.sent[i].op, records[i].op);
    EXPECT_EQ(target_.sent[i].offset, records[i].offset);
    EXPECT_EQ(target_.sent[i].bytes, records[i].bytes);
  }
  EXPECT_EQ(report->requests(), records.size());
  EXPECT_EQ(report->errors(), 0U);
  EXPECT_EQ(report->passes, 1U);
}

TEST_F(ReplayerTest, WritesCarryTheContentOfTheirFingerprints) {
  const TraceRecord write{.op = TraceOp::kWrite,
                          .offset = 4096,
                          .bytes = 8192,
                          .compressed_per_mille = 300,
                          .fingerprints = {0x1234, 0}};

  ASSERT_TRUE(ReplayTrace(Write({write}), target_, {}, clock_).ok());

  std::vector<std::byte> expected(8192);
  trace::MakeContent(4096, write.fingerprints, expected);
  ASSERT_EQ(target_.sent.size(), 1U);
  EXPECT_EQ(target_.sent[0].data, expected);
}

TEST_F(ReplayerTest, WritesOfUnknownContentAreUniqueAndDoNotShrink) {
  const TraceRecord write{.op = TraceOp::kWrite, .offset = 4096, .bytes = 8192};

  ASSERT_TRUE(ReplayTrace(Write({write, write}), target_, {}, clock_).ok());

  ASSERT_EQ(target_.sent.size(), 2U);
  std::set<uint64_t> contents;
  for (const auto& sent : target_.sent) {
    const trace::WriteContent content = trace::DescribeContent(4096, sent.data);
    EXPECT_GT(content.compressed_per_mille, 990);
    contents.insert(content.fingerprints.begin(), content.fingerprints.end());
  }
  EXPECT_EQ(contents.size(), 4U);
}

TEST_F(ReplayerTest, DevicesLieOneAfterTheOther) {
  const std::vector<TraceRecord> records = {
      {.offset = 0, .bytes = 4096, .device = 7},
      {.offset = 4096, .bytes = 4096, .device = 3},
      {.offset = 3 * kMiB, .bytes = 512, .device = 7},
      {.offset = 0, .bytes = 4096, .device = 3},
  };

  ASSERT_TRUE(ReplayTrace(Write(records), target_, {}, clock_).ok());

  ASSERT_EQ(target_.sent.size(), 4U);
  EXPECT_EQ(target_.sent[0].offset, 0U);
  EXPECT_EQ(target_.sent[1].offset, 4 * kMiB + 4096);
  EXPECT_EQ(target_.sent[2].offset, 3 * kMiB);
  EXPECT_EQ(target_.sent[3].offset, 4 * kMiB);
}

TEST_F(ReplayerTest, TracesOfOtherFormatsAreReplayedAsTheyAre) {
  const std::string path = std::string(EBB_SOURCE_DIR) + "/tests/data/traces/requests.msr";

  const auto report = ReplayTrace(path, target_, {.format = "msr"}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(target_.sent.size(), 4U);
  EXPECT_EQ(target_.sent[1].op, TraceOp::kWrite);
  EXPECT_EQ(target_.sent[1].offset, 1U << 20);
  EXPECT_EQ(target_.sent[3].time_ns - target_.sent[0].time_ns, 2'000'700'000U);
  EXPECT_FALSE(ReplayTrace("-", target_, {}, clock_).ok());
}

TEST_F(ReplayerTest, RequestsBeyondATracesOwnLimitAreSentInPieces) {
  // 100 MiB from sector 1: more than Ebb's own format holds in one request.
  trace::WriteFile(folder_.File("long.spc"), "0,1,104857600,w,0\n0,0,512,r,1\n");

  const auto report = ReplayTrace(folder_.File("long.spc"), target_, {.format = "spc"}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(target_.sent.size(), 3U);
  EXPECT_EQ(target_.sent[0].offset, 512U);
  EXPECT_EQ(target_.sent[1].offset, 64 * kMiB);
  EXPECT_EQ(target_.sent[0].bytes + target_.sent[1].bytes, 100 * kMiB);
  EXPECT_EQ(target_.sent[2].bytes, 512U);
}

TEST_F(ReplayerTest, OpenLoopKeepsTheTimesDividedBySpeed) {
  const auto report = ReplayTrace(WriteReads(100, kNsPerMs), target_, {.speed = 4}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  const uint64_t begin_ns = target_.sent[0].time_ns;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(target_.sent[i].time_ns - begin_ns, i * 250 * kNsPerUs);
  }
  EXPECT_EQ(report->SpanError(), 0);
  EXPECT_LE(report->drift.QuantileNs(1), 1);
  EXPECT_EQ(report->depth_limited, 0U);
  EXPECT_NEAR(report->kinds.at(TraceOp::kRead).latency.MeanNs(), 100e3, 1);
}

// Method: requests come every 50 us, are served in 100 us, and only one may be in flight.
TEST_F(ReplayerTest, TooSmallADepthIsReportedAsDrift) {
  const auto report = ReplayTrace(WriteReads(100, 50 * kNsPerUs), target_, {.depth = 1}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(target_.most_in_flight, 1U);
  EXPECT_EQ(report->depth_limited, 99U);
  EXPECT_NEAR(report->SpanError(), 1.0, 0.01);
  EXPECT_GT(report->drift.QuantileNs(0.99), 4.5e6);
}

TEST_F(ReplayerTest, ClosedLoopKeepsTheDepthFilled) {
  const auto report = ReplayTrace(WriteReads(1000, kNsPerS), target_,
                                  {.pace = ReplayOptions::Pace::kClosedLoop, .depth = 10}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(target_.most_in_flight, 10U);
  EXPECT_EQ(report->actual_span_ns, 99 * 100 * kNsPerUs);
}

TEST_F(ReplayerTest, RepeatsUntilTheDurationIsOver) {
  const auto report =
      ReplayTrace(WriteReads(11, kNsPerMs), target_, {.duration_ns = 35 * kNsPerMs}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->passes, 3U);
  EXPECT_NEAR(static_cast<double>(report->requests()), 38, 1);
  EXPECT_NEAR(static_cast<double>(report->actual_span_ns), 35e6, 1e6);
}

// axboe/fio#1537: a little delay with each request adds up, and the replay falls behind. #772: gaps
// cut to whole microseconds make it 2 % slower.
TEST_F(ReplayerTest, DelaysOfSingleRequestsDoNotAddUp) {
  target_.submit_ns = 50 * kNsPerUs;

  const auto report = ReplayTrace(WriteReads(5000, 100'999), target_, {}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->planned_span_ns, 4999U * 100'999);
  EXPECT_LT(std::abs(report->SpanError()), 0.001);
  EXPECT_LT(report->drift.QuantileNs(1), 100e3);
}

// axboe/fio#644: a later and larger request overran the buffer that the first one had sized.
TEST_F(ReplayerTest, LaterRequestsMayBeLarger) {
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 12; ++i) {
    const uint64_t bytes = uint64_t{4096} << i;
    std::vector<uint64_t> fingerprints(bytes / 4096, (i + 1) << 4 | 15);
    records.push_back({.time_ns = i,
                       .op = TraceOp::kWrite,
                       .bytes = bytes,
                       .compressed_per_mille = 1000,
                       .fingerprints = std::move(fingerprints)});
  }

  ASSERT_TRUE(ReplayTrace(Write(records), target_, {.depth = 1}, clock_).ok());

  ASSERT_EQ(target_.sent.size(), 12U);
  for (size_t i = 0; i < 12; ++i) {
    std::vector<std::byte> expected(records[i].bytes);
    trace::MakeContent(0, records[i].fingerprints, expected);
    EXPECT_EQ(target_.sent[i].data, expected) << i;
  }
}

// CMU-SAFARI/MQSim#15: repeating a tiny trace aborted.
TEST_F(ReplayerTest, ATraceOfOneRequestIsRepeated) {
  const auto report =
      ReplayTrace(WriteReads(1, 0), target_, {.depth = 1, .duration_ns = 10 * kNsPerMs}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NEAR(static_cast<double>(report->requests()), 100, 1);  // 100 us each
}

TEST_F(ReplayerTest, DurationCutsAGapShort) {
  const uint64_t begin_ns = clock_.MonotonicNs();

  const auto report =
      ReplayTrace(WriteReads(2, 3600 * kNsPerS), target_, {.duration_ns = kNsPerS}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->requests(), 1U);
  EXPECT_LT(clock_.MonotonicNs() - begin_ns, 2 * kNsPerS);
}

TEST_F(ReplayerTest, ProgressGrowsToTheEnd) {
  std::vector<double> shares;
  uint64_t last_requests = 0;
  ReplayOptions options{.duration_ns = kNsPerS};
  options.on_progress = [&](double share, uint64_t requests) {
    shares.push_back(share);
    last_requests = requests;
  };

  ASSERT_TRUE(ReplayTrace(WriteReads(1000, kNsPerMs), target_, options, clock_).ok());

  ASSERT_EQ(shares.size(), 1000U / 64);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_NEAR(shares.front(), 0.063, 0.001);
  EXPECT_NEAR(shares.back(), 0.959, 0.001);
  EXPECT_EQ(last_requests, 960U);
}

TEST_F(ReplayerTest, StopEndsTheReplay) {
  const std::atomic<bool> stop{true};

  const auto report =
      ReplayTrace(WriteReads(100, kNsPerMs), target_, {.repeat = true, .stop = &stop}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->requests(), 0U);
}

TEST_F(ReplayerTest, ATargetTooSmallIsRefusedWithBothSizes) {
  SimulatedTarget small(clock_, kMiB, 1000);

  const absl::Status status = ReplayTrace(WriteReads(1000, 1000), small, {}, clock_).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("needs 4096000 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("has only 1048576"));
  EXPECT_TRUE(small.sent.empty());
}

TEST_F(ReplayerTest, FoldedRequestsStayInsideTheTarget) {
  const uint64_t size = 3 * kMiB + 4096 + 512;
  SimulatedTarget small(clock_, size, 1000);

  const auto report =
      ReplayTrace(Write(SampleRecords(3000, 2)), small, {.fold_offsets = true}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(small.sent.size(), 3000U);
  EXPECT_GT(report->folded, 1000U);
  for (const auto& sent : small.sent) EXPECT_LE(sent.offset + sent.bytes, size);
}

TEST_F(ReplayerTest, LongRequestsAreCutToTheTargetsLimit) {
  target_.request_bytes_max = 8192;
  const TraceRecord write{
      .op = TraceOp::kWrite, .bytes = 20480, .fingerprints = {16, 32, 48, 64, 80}};

  ASSERT_TRUE(ReplayTrace(Write({write}), target_, {}, clock_).ok());

  ASSERT_EQ(target_.sent.size(), 3U);
  std::vector<std::byte> got;
  for (const auto& sent : target_.sent) {
    EXPECT_EQ(sent.offset, got.size());
    got.insert(got.end(), sent.data.begin(), sent.data.end());
  }
  std::vector<std::byte> expected(20480);
  trace::MakeContent(0, write.fingerprints, expected);
  EXPECT_EQ(got, expected);
}

TEST_F(ReplayerTest, WhatTheTargetCannotDoIsSkippedAndCounted) {
  target_.unsupported = TraceOp::kTrim;

  const auto report = ReplayTrace(
      Write({{.op = TraceOp::kTrim, .bytes = 4096}, {.time_ns = 1, .op = TraceOp::kFlush}}),
      target_, {}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(target_.sent.size(), 1U);
  EXPECT_EQ(report->kinds.at(TraceOp::kTrim).skipped, 1U);
}

TEST_F(ReplayerTest, FailedRequestsAreCountedAndTheReplayGoesOn) {
  target_.failing = TraceOp::kFlush;

  const auto report = ReplayTrace(Write({{.op = TraceOp::kFlush}, {.time_ns = 1, .bytes = 4096}}),
                                  target_, {}, clock_);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->errors(), 1U);
  EXPECT_EQ(report->first_error, "bad sector");
  EXPECT_EQ(report->kinds.at(TraceOp::kRead).requests, 1U);
  EXPECT_THAT(report->ToText(), HasSubstr("first error: bad sector"));
}

TEST_F(ReplayerTest, ATargetThatGoesAwayEndsTheReplay) {
  target_.dies_after = 5;

  EXPECT_EQ(ReplayTrace(WriteReads(10, 1000), target_, {}, clock_).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ReplayerTest, ADamagedTraceIsAnErrorWithItsChunk) {
  const std::string path = WriteReads(100, 1000);
  trace::WriteFile(path, trace::ReadFile(path).substr(0, 60));

  const absl::Status status = ReplayTrace(path, target_, {}, clock_).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("chunk 0"));
}

TEST_F(ReplayerTest, ImpossibleOptionsAreRefused) {
  const std::string path = WriteReads(1, 1);

  EXPECT_FALSE(ReplayTrace(path, target_, {.speed = 0}, clock_).ok());
  EXPECT_FALSE(ReplayTrace(path, target_, {.depth = 0}, clock_).ok());
}

}  // namespace
}  // namespace ebb::env
