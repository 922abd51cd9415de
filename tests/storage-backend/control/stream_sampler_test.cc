#include "storage-backend/control/stream_sampler.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "storage-backend/control/in_flight_meter.h"

namespace ebb::storage {
namespace {

StreamRecord RecordAt(uint64_t time_ns, uint64_t offset, char op = 'R') {
  StreamRecord record;
  record.time_ns = time_ns;
  record.op = op;
  record.offset = offset;
  record.bytes = 4096;
  return record;
}

TEST(StreamSamplerTest, KeepsEverythingAtALowRate) {
  StreamSampler sampler;
  for (uint64_t i = 0; i < 5000; ++i) sampler.Record(RecordAt(i * kNsPerMs, i * 4096));

  const StreamSampler::Slice slice = sampler.Get(0, 10'000);

  EXPECT_EQ(slice.records.size(), 5000U);
  EXPECT_EQ(slice.sample_rate, 1);
  EXPECT_EQ(slice.next, 5001U);
  EXPECT_EQ(slice.dropped, 0U);
  EXPECT_EQ(slice.records[17].offset, 17U * 4096);
  EXPECT_TRUE(sampler.Get(slice.next, 100).records.empty());
}

// Goal: the cost of looking at content is bounded, and what is looked at is part of the sample.
TEST(StreamSamplerTest, ContentComesFromAThinnerSampleUnderLoad) {
  const auto count = [](uint64_t gap_ns, uint64_t requests) {
    StreamSampler sampler(/*records_max=*/1 << 20);
    uint64_t wanted = 0;
    for (uint64_t i = 0; i < requests; ++i) {
      StreamRecord record =
          RecordAt(i * gap_ns + 1, i * 7919 % 4096 * StreamSampler::kRegionBytes, 'W');
      record.has_content = sampler.WantsContent(record);
      wanted += record.has_content ? 1 : 0;
      sampler.Record(record);
    }
    uint64_t with_content = 0;
    for (uint64_t after = 0;;) {
      const StreamSampler::Slice slice = sampler.Get(after, 1 << 20);
      for (const StreamRecord& record : slice.records) with_content += record.has_content ? 1 : 0;
      if (slice.next == after) break;
      after = slice.next;
    }
    // Nothing was looked at in vain.
    EXPECT_EQ(with_content, wanted);
    return wanted;
  };

  EXPECT_EQ(count(2 * kNsPerMs, 2000), 2000U);  // 500 a second
  // 4,000 a second: a first thousand, and about an eighth from there on, within the first second
  // already (a burst's first second used to be paid for in full).
  const uint64_t at_4000 = count(250'000, 40'000);
  EXPECT_GT(at_4000, 1000 + 39'000 / 12);
  EXPECT_LT(at_4000, 1000 + 39'000 / 5);
  EXPECT_LT(count(250'000, 4'000), 1000 + 3'000 / 4);
}

TEST(StreamSamplerTest, OnlyWritesHaveContent) {
  const StreamSampler sampler;
  EXPECT_TRUE(sampler.WantsContent(RecordAt(0, 0, 'W')));
  for (const char op : {'R', 'F', 'T', 'Z'}) EXPECT_FALSE(sampler.WantsContent(RecordAt(0, 0, op)));
}

TEST(StreamSamplerTest, PagesThroughWithNext) {
  StreamSampler sampler;
  for (uint64_t i = 0; i < 100; ++i) sampler.Record(RecordAt(i * kNsPerMs, i));
  uint64_t after = 0;
  uint64_t seen = 0;
  for (int page = 0; page < 10; ++page) {
    const StreamSampler::Slice slice = sampler.Get(after, 30);
    for (const StreamRecord& record : slice.records) EXPECT_EQ(record.offset, seen++);
    after = slice.next;
  }
  EXPECT_EQ(seen, 100U);
}

TEST(StreamSamplerTest, SaysWhatTheRingLost) {
  StreamSampler sampler(/*records_max=*/100);
  for (uint64_t i = 0; i < 350; ++i) sampler.Record(RecordAt(i * kNsPerMs, i));

  const StreamSampler::Slice slice = sampler.Get(200, 1000);

  EXPECT_EQ(slice.dropped, 51U);
  ASSERT_EQ(slice.records.size(), 100U);
  EXPECT_EQ(slice.records[0].offset, 250U);
}

// Who has listened since before the first request misses the first ones as any others.
TEST(StreamSamplerTest, SaysWhatTheRingLostToAWatcherFromTheBeginning) {
  StreamSampler sampler(/*records_max=*/100);
  const uint64_t after = sampler.Get(0, 1000).next;
  for (uint64_t i = 0; i < 350; ++i) sampler.Record(RecordAt(i * kNsPerMs, i));

  EXPECT_EQ(sampler.Get(after, 1000).dropped, 250U);
  EXPECT_EQ(sampler.Get(0, 1000).dropped, 0U);  // the oldest that is there
}

// Goal: above the rate the sample is spatial, near its nominal share, whole regions or nothing, and
// a slice never mixes rates. Method: 40,000 requests a second over 4 GiB for three seconds.
TEST(StreamSamplerTest, SamplesWholeRegionsAboveTheRate) {
  StreamSampler sampler(/*records_max=*/1 << 20);
  const uint64_t step_ns = kNsPerS / 40'000;
  uint64_t now_ns = kNsPerS;
  uint64_t sent_at_eighth = 0;
  std::vector<int> in_region(16384);
  for (uint64_t i = 0; i < 120'000; ++i, now_ns += step_ns) {
    sampler.Record(RecordAt(now_ns, (i * 7919 * 4096) % (4 * kGiB)));
  }

  StreamSampler::Slice slice = sampler.Get(0, 1 << 20);
  EXPECT_EQ(slice.sample_rate, 1);
  const uint64_t kept_whole = slice.records.size();
  EXPECT_NEAR(static_cast<double>(kept_whole), 8'000, 10);  // within the first second
  sent_at_eighth = 120'000 - kept_whole;
  slice = sampler.Get(slice.next, 1 << 20);
  EXPECT_EQ(slice.sample_rate, 0.125);
  EXPECT_NEAR(static_cast<double>(slice.records.size()) / static_cast<double>(sent_at_eighth),
              0.125, 0.02);

  // Every request to a region that was sampled once is sampled.
  std::vector<bool> sampled(4 * kGiB / StreamSampler::kRegionBytes);
  for (const StreamRecord& record : slice.records) {
    sampled[record.offset / StreamSampler::kRegionBytes] = true;
  }
  uint64_t expected = 0;
  for (uint64_t i = kept_whole; i < 120'000; ++i) {
    const uint64_t offset = (i * 7919 * 4096) % (4 * kGiB);
    if (sampled[offset / StreamSampler::kRegionBytes]) ++expected;
  }
  EXPECT_EQ(expected, slice.records.size());
}

TEST(StreamSamplerTest, GoesBackToEverythingWhenTheRateFalls) {
  StreamSampler sampler(1 << 20);
  uint64_t now_ns = kNsPerS;
  for (int i = 0; i < 50'000; ++i) sampler.Record(RecordAt(now_ns += 20'000, 4096, 'F'));
  for (int i = 0; i < 3'000; ++i) sampler.Record(RecordAt(now_ns += kNsPerMs, 4096));
  uint64_t after = 0;
  StreamSampler::Slice slice;
  for (int page = 0; page < 10; ++page) {
    const StreamSampler::Slice next = sampler.Get(after, 1 << 20);
    if (next.records.empty()) break;
    slice = next;
    after = next.next;
  }
  EXPECT_EQ(slice.sample_rate, 1);
  EXPECT_GE(slice.records.size(), 1900U);
}

TEST(InFlightMeterTest, IntegratesRequestsOverTime) {
  InFlightMeter meter;
  meter.Begin(1000);
  meter.Begin(1500);
  EXPECT_EQ(meter.in_flight(), 2U);
  EXPECT_EQ(meter.IntegralNs(2000), 1500U);
  meter.End(2000);
  EXPECT_EQ(meter.IntegralNs(3000), 2500U);
  meter.End(3000);
  EXPECT_EQ(meter.in_flight(), 0U);
  EXPECT_EQ(meter.begun(), 2U);
  EXPECT_EQ(meter.IntegralNs(900'000), 2500U);
}

}  // namespace
}  // namespace ebb::storage
