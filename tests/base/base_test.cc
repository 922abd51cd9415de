#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/histogram.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/units.h"

namespace ebb {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32cTest, MatchesThePublishedCheckValues) {
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xe3069283U);            // the CRC catalogue's check value
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\xff'))), 0x62a8ab43U);
  EXPECT_EQ(Crc32c({}), 0U);
}

// The definition, bit by bit.
uint32_t SlowCrc32c(std::span<const std::byte> data) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte b : data) {
    crc ^= static_cast<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

// Goal: every fast path (folding, lanes, tails) equals the definition, with and without a copy.
// Method: every length around the widths of those paths, from a moving start.
TEST(Crc32cTest, EveryLengthEqualsTheDefinition) {
  Rng rng(8);
  std::vector<std::byte> data(4500);
  for (std::byte& b : data) b = static_cast<std::byte>(rng.Next());
  std::vector<std::byte> copy(data.size() + 1);
  for (size_t bytes = 0; bytes <= 4400; bytes += bytes < 1200 || bytes > 4000 ? 1 : 61) {
    const auto from = std::span<const std::byte>(data).subspan(bytes % 67, bytes);
    const uint32_t expected = SlowCrc32c(from);
    ASSERT_EQ(Crc32c(from), expected) << bytes << " bytes";
    copy[bytes] = std::byte{0x5a};
    ASSERT_EQ(Crc32cCopy(copy.data(), from), expected) << bytes << " bytes";
    ASSERT_TRUE(std::equal(from.begin(), from.end(), copy.begin())) << bytes << " bytes";
    ASSERT_EQ(copy[bytes], std::byte{0x5a}) << "written behind " << bytes << " bytes";
    const size_t cut = bytes / 3;
    ASSERT_EQ(Crc32cCopy(copy.data(), from.subspan(cut), Crc32c(from.first(cut))), expected);
  }
}

// Goal: the three-lane path for blocks equals the plain definition. Method: cut the input at every
// place, so that one part takes the short path; a CRC continues across the cut.
TEST(Crc32cTest, LongInputsEqualTheirPiecesInSequence) {
  Rng rng(7);
  std::vector<std::byte> data(9000);
  for (std::byte& b : data) b = static_cast<std::byte>(rng.Next());
  const std::span<const std::byte> all(data);
  const uint32_t whole = Crc32c(all);

  for (size_t cut = 0; cut <= data.size(); cut += 97) {
    uint32_t pieces = 0;
    for (size_t at = 0; at < cut; at += 64) {
      pieces = Crc32c(all.subspan(at, std::min<size_t>(64, cut - at)), pieces);
    }
    EXPECT_EQ(Crc32c(all.subspan(cut), pieces), whole) << "cut at " << cut;
  }
}

TEST(LatencyHistogramTest, BucketsCoverEveryValueOnce) {
  for (size_t i = 0; i + 1 < LatencyHistogram::kBucketCount; ++i) {
    const uint64_t low = LatencyHistogram::BucketLowNs(i);
    EXPECT_EQ(LatencyHistogram::BucketOf(low), i);
    EXPECT_EQ(LatencyHistogram::BucketOf(LatencyHistogram::BucketHighNs(i) - 1), i);
  }
  EXPECT_EQ(LatencyHistogram::BucketOf(UINT64_MAX), LatencyHistogram::kBucketCount - 1);
}

TEST(LatencyHistogramTest, QuantilesAreWithinABucketOfTheExactOnes) {
  Rng rng(1);
  LatencyHistogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<uint64_t>(std::exp(8 + 2 * rng.Normal())));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());

  for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = static_cast<double>(values[static_cast<size_t>(q * 20000)]);
    EXPECT_NEAR(histogram.QuantileNs(q) / exact, 1.0, 0.07) << q;
  }
}

TEST(LatencyHistogramTest, AWindowIsTheDifferenceOfTwoSnapshots) {
  LatencyHistogram cumulative;
  cumulative.Record(100, 5);
  const LatencyHistogram before = cumulative;
  cumulative.Record(5000, 3);

  const LatencyHistogram window = cumulative.Since(before);

  EXPECT_EQ(window.count(), 3U);
  EXPECT_EQ(window.sum_ns(), 15000U);
  EXPECT_NEAR(window.QuantileNs(0.5), 5000, 5000 / 16.0);
}

TEST(LatencyHistogramTest, SparseFormRoundTripsAndRefusesForeignBuckets) {
  LatencyHistogram histogram;
  histogram.Record(17);
  histogram.Record(1'000'000, 9);
  LatencyHistogram copy;
  ASSERT_TRUE(LatencyHistogram::FromSparse(histogram.Sparse(), histogram.sum_ns(), copy));
  EXPECT_EQ(copy.Sparse(), histogram.Sparse());
  EXPECT_EQ(copy.count(), 10U);
  EXPECT_FALSE(LatencyHistogram::FromSparse({{LatencyHistogram::kBucketCount, 1}}, 0, copy));
}

TEST(RngTest, SameSeedSameStreamAndFlatDistribution) {
  Rng a(42);
  Rng b(42);
  std::vector<int> counts(10);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t value = a.Below(10);
    ASSERT_EQ(value, b.Below(10));
    ++counts[value];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(RngTest, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(3);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = rng.Normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 100000, 0, 0.02);
  EXPECT_NEAR(squares / 100000, 1, 0.02);
}

TEST(UnitsTest, BytesReadAndWriteAsPeopleDo) {
  EXPECT_EQ(*ParseBytes("4096"), 4096U);
  EXPECT_EQ(*ParseBytes("64k"), 65536U);
  EXPECT_EQ(*ParseBytes("1.5 GiB"), 3 * kGiB / 2);
  EXPECT_EQ(FormatBytes(3 * kGiB / 2), "1.5 GiB");
  EXPECT_EQ(FormatBytes(0), "0 B");
  for (const char* bad : {"", "x", "-5", "5 parsecs", "1e30", "nan", "inf"}) {
    EXPECT_FALSE(ParseBytes(bad).ok()) << bad;
  }
}

TEST(UnitsTest, DurationsReadAndWriteAsPeopleDo) {
  EXPECT_EQ(*ParseDurationNs("500ms"), 500 * kNsPerMs);
  EXPECT_EQ(*ParseDurationNs("5min"), 300 * kNsPerS);
  EXPECT_EQ(FormatDurationNs(200 * kNsPerS), "3 min 20 s");
  EXPECT_FALSE(ParseDurationNs("soon").ok());
}

TEST(StatusTest, AnnotateKeepsTheCodeAndErrnoSurvivesTheTrip) {
  const absl::Status status = Annotate(ErrnoStatus(ENOSPC, "write"), "destage");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()).rfind("destage: write", 0), 0U) << status;
  EXPECT_EQ(StatusToErrno(status), ENOSPC);
  EXPECT_EQ(StatusToErrno(absl::OkStatus()), 0);
}

TEST(ManualClockTest, SleepMovesItToTheDeadlineAndNeverBack) {
  ManualClock clock;
  clock.SleepUntilNs(5 * kNsPerS);
  EXPECT_EQ(clock.MonotonicNs(), 5 * kNsPerS);
  clock.SleepUntilNs(1);
  EXPECT_EQ(clock.MonotonicNs(), 5 * kNsPerS);
}

TEST(AlignedBufferTest, IsAlignedZeroedAndMovable) {
  AlignedBuffer buffer(5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % AlignedBuffer::kAlignment, 0U);
  EXPECT_EQ(buffer.size(), 8192U);
  const AlignedBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.data()[8191], std::byte{0});
}

}  // namespace
}  // namespace ebb
