// A profile's figures on records whose figures can be counted by hand; and the trace that the
// repository carries is whole and is what tests/data/README.md says.
#include "env/trace/trace_profile.h"

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

TraceProfile ProfileOf(const std::vector<TraceRecord>& records, uint64_t clock_ns = 0) {
  TraceProfiler profiler({.format = "made", .has_content = true, .has_compressibility = true});
  for (const TraceRecord& record : records) profiler.Add(record, clock_ns);
  return profiler.Finish();
}

TEST(TraceProfileTest, CountsEveryKindAndItsBytes) {
  const TraceProfile profile =
      ProfileOf({{.time_ns = 0,
                  .op = TraceOp::kWrite,
                  .fua = true,
                  .offset = 4096,
                  .bytes = 8192,
                  .compressed_per_mille = 500,
                  .fingerprints = {77, 77}},
                 {.time_ns = 10, .op = TraceOp::kRead, .offset = 0, .bytes = 4096},
                 {.time_ns = 20, .op = TraceOp::kFlush},
                 {.time_ns = 30,
                  .op = TraceOp::kWrite,
                  .offset = 4096,
                  .bytes = 4096,
                  .compressed_per_mille = 0,
                  .fingerprints = {0}},
                 {.time_ns = 40, .op = TraceOp::kTrim, .offset = 0, .bytes = 1 << 20},
                 {.time_ns = 50, .op = TraceOp::kWriteZeroes, .offset = 0, .bytes = 4096}});

  EXPECT_EQ(profile.reads, 1U);
  EXPECT_EQ(profile.writes, 2U);
  EXPECT_EQ(profile.flushes, 1U);
  EXPECT_EQ(profile.trims, 1U);
  EXPECT_EQ(profile.zeroes, 1U);
  EXPECT_EQ(profile.read_bytes, 4096U);
  EXPECT_EQ(profile.write_bytes, 12288U);
  EXPECT_EQ(profile.trim_bytes, 1U << 20);
  EXPECT_EQ(profile.zero_bytes, 4096U);
  EXPECT_EQ(profile.fua_requests, 1U);
  EXPECT_EQ(profile.needed_bytes, 1U << 20);
  EXPECT_DOUBLE_EQ(*profile.read_share, 1.0 / 3);
  EXPECT_EQ(profile.footprint_blocks, 3);
  EXPECT_DOUBLE_EQ(profile.reuse_share, 1.0 / 4);
  EXPECT_DOUBLE_EQ(*profile.rewrite_share, 1.0 / 3);
  EXPECT_EQ(profile.content_blocks, 3U);
  EXPECT_DOUBLE_EQ(profile.duplicate_share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(profile.zero_share, 1.0 / 3);
  EXPECT_NEAR(*profile.compressed_share, 4096.0 / 12288, 1e-9);
  EXPECT_EQ(profile.span_s, 30e-9);
}

TEST(TraceProfileTest, BurstsAreCountedInWindowsOfTheTracesOwnClock) {
  // 3 requests in second 100, none in 101, 1 in 102.
  const std::vector<TraceRecord> records = {{.time_ns = 0, .bytes = 512},
                                            {.time_ns = 100 * kNsPerMs, .bytes = 512},
                                            {.time_ns = 399 * kNsPerMs, .bytes = 512},
                                            {.time_ns = 1500 * kNsPerMs, .bytes = 512}};
  const TraceProfile profile = ProfileOf(records, 100'600 * kNsPerMs);

  const BurstProfile& seconds = profile.bursts[2];
  ASSERT_EQ(seconds.window_ns, kNsPerS);
  EXPECT_EQ(seconds.requests_max, 3U);
  EXPECT_DOUBLE_EQ(seconds.idle_share, 1.0 / 3);
  // Mean 4/3, variance (9 + 0 + 1) / 3 - 16/9.
  EXPECT_NEAR(seconds.variance_over_mean, (10.0 / 3 - 16.0 / 9) / (4.0 / 3), 1e-9);
  EXPECT_NEAR(*profile.PeakOverMean(), 3 / (4 / 1.5), 1e-9);
}

TEST(TraceProfileTest, SequentialMeansWhereTheSameDeviceEnded) {
  const TraceProfile profile = ProfileOf({{.offset = 0, .bytes = 4096, .device = 1},
                                          {.offset = 4096, .bytes = 4096, .device = 2},
                                          {.offset = 4096, .bytes = 4096, .device = 1},
                                          {.offset = 8192, .bytes = 100, .device = 2}});
  EXPECT_DOUBLE_EQ(profile.sequential_share, 0.5);
  EXPECT_DOUBLE_EQ(profile.unaligned_share, 0.25);
  EXPECT_EQ(profile.devices, 2U);
}

TEST(TraceProfileTest, AnEmptyTraceHasNoFigures) {
  const TraceProfile profile = ProfileOf({});
  EXPECT_EQ(profile.footprint_blocks, 0);
  EXPECT_EQ(profile.reuse_share, 0);
  EXPECT_FALSE(profile.mean_iops.has_value());
  EXPECT_FALSE(profile.compressed_share.has_value());
  EXPECT_FALSE(profile.PeakOverMean().has_value());
  EXPECT_TRUE(profile.miss_ratios.empty());
}

TEST(RecordedTraceTest, SqliteOnExt4IsWholeAndOfTheRightSize) {
  const std::string path = std::string(EBB_SOURCE_DIR) + "/tests/data/sqlite_ext4.ebbt";
  auto source = OpenTrace(path);
  ASSERT_TRUE(source.ok()) << source.status();

  const auto profile = ProfileTrace(**source);

  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_LE(std::filesystem::file_size(path), 2'000'000U);
  EXPECT_GE(*profile->span_s, 30);
  EXPECT_LE(*profile->span_s, 90);
  EXPECT_EQ(profile->needed_bytes, 512 * kMiB);
  EXPECT_NEAR(*profile->read_share, 0.67, 0.05);
  EXPECT_GT(profile->flushes, 5000U);
  EXPECT_GT(profile->trims, 10U);
  EXPECT_NEAR(profile->duplicate_share, 0.20, 0.03);
}

}  // namespace
}  // namespace ebb::env
