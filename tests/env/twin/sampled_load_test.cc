#include "env/twin/sampled_load.h"

#include <cmath>
#include <set>

#include "base/rng.h"
#include "base/units.h"
#include "storage-backend/control/stream_sampler.h"
#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

using env::StreamEntry;
using storage::StreamSampler;

constexpr uint64_t kVolume = kGiB;
constexpr uint64_t kRegion = StreamSampler::kRegionBytes;

// Reads and writes of a block at random places, 10,000 a second; each twentieth is a flush.
std::vector<StreamEntry> Stream(size_t count) {
  Rng rng(7);
  std::vector<StreamEntry> entries;
  for (size_t i = 0; i < count; ++i) {
    StreamEntry entry{.time_ns = kNsPerS + i * 100 * kNsPerUs, .op = rng.Chance(0.7) ? 'R' : 'W'};
    entry.bytes = kBlockBytes;
    entry.offset = rng.Below(kVolume / kBlockBytes) * kBlockBytes;
    if (i % 20 == 0) entry = {.time_ns = entry.time_ns, .op = 'F'};
    entries.push_back(entry);
  }
  return entries;
}

// What a node tells of them when it tells 2^-shift.
std::vector<StreamEntry> Sampled(const std::vector<StreamEntry>& all, uint32_t shift) {
  std::vector<StreamEntry> kept;
  uint64_t flushes = 0;
  for (const StreamEntry& entry : all) {
    const bool keep = entry.op == 'F' ? flushes++ % (1 << shift) == 0
                                      : StreamSampler::InSample(entry.offset / kRegion, shift);
    if (keep) kept.push_back(entry);
  }
  return kept;
}

struct Features {
  double requests_per_s = 0;
  double read_share = 0;
  double flush_share = 0;
  double working_set_bytes = 0;
};

Features FeaturesOf(const RequestStream& load) {
  double reads = 0;
  double flushes = 0;
  std::set<uint32_t> blocks;
  for (const Request& request : load.requests()) {
    reads += request.kind == RequestKind::kRead ? 1 : 0;
    flushes += request.kind == RequestKind::kFlush ? 1 : 0;
    if (request.blocks > 0) blocks.insert(request.first_block);
  }
  const auto count = static_cast<double>(load.request_count());
  return {.requests_per_s = count * 1e9 / static_cast<double>(load.duration_ns()),
          .read_share = reads / count,
          .flush_share = flushes / count,
          .working_set_bytes = static_cast<double>(blocks.size()) * kBlockBytes * load.divisor()};
}

RequestStream BuildAll(const SampledLoad& sampled, double true_share = 1) {
  auto load = sampled.Build(kNsPerS, 11 * kNsPerS, true_share);
  EXPECT_TRUE(load.ok()) << load.status();
  return load.ok() ? *std::move(load) : RequestStream(kVolume);
}

TEST(SampledLoadTest, AWholeStreamIsTheLoadItself) {
  SampledLoad sampled(kVolume);
  sampled.Add(Stream(100'000), 1);
  EXPECT_EQ(sampled.divisor(), 1u);

  const RequestStream load = BuildAll(sampled);

  EXPECT_EQ(load.request_count(), 100'000u);
  EXPECT_EQ(load.duration_ns(), 10 * kNsPerS);
  EXPECT_EQ(load.volume_bytes(), kVolume);
  EXPECT_EQ(load.divisor(), 1);
  const std::vector<StreamEntry> all = Stream(100'000);
  EXPECT_EQ(load.PlaceOf(load.requests()[5].first_block), all[5].offset / kBlockBytes);
  EXPECT_EQ(load.requests()[5].time_ns, all[5].time_ns - kNsPerS);
}

// Goal: the load made of a sample has the features of the whole one.
// Method: both are built of one stream; the sample may be off by five standard deviations.
TEST(SampledLoadTest, ASampleHasTheFeaturesOfTheWhole) {
  const std::vector<StreamEntry> all = Stream(100'000);
  SampledLoad whole(kVolume);
  whole.Add(all, 1);
  const Features expected = FeaturesOf(BuildAll(whole));
  for (const uint32_t shift : {3, 6}) {
    const std::vector<StreamEntry> kept = Sampled(all, shift);
    SampledLoad sampled(kVolume);
    sampled.Add(kept, 1.0 / (1 << shift));

    const double told = sampled.EstimateOps(0, UINT64_MAX);
    const RequestStream load = BuildAll(sampled, 95'000 / told);
    const Features seen = FeaturesOf(load);

    EXPECT_EQ(load.time_divisor(), 1u << shift);
    EXPECT_EQ(load.request_count(), kept.size());
    const double deviation = 1 / std::sqrt(static_cast<double>(kept.size()));
    // The rate is that of the counters, but for the flushes' part.
    EXPECT_NEAR(seen.requests_per_s, expected.requests_per_s, 0.02 * expected.requests_per_s);
    EXPECT_NEAR(seen.read_share, expected.read_share, 5 * 0.5 * deviation);
    EXPECT_NEAR(seen.flush_share, expected.flush_share, 5 * 0.25 * deviation);
    EXPECT_NEAR(seen.working_set_bytes, expected.working_set_bytes,
                5 * deviation * expected.working_set_bytes);
    EXPECT_NEAR(static_cast<double>(load.volume_bytes()) * load.divisor(), kVolume, 0.05 * kVolume);
  }
}

TEST(SampledLoadTest, WithoutCountersTheRateIsWhatTheSampleTells) {
  const std::vector<StreamEntry> kept = Sampled(Stream(100'000), 3);
  SampledLoad sampled(kVolume);
  sampled.Add(kept, 0.125);

  const RequestStream load = BuildAll(sampled);

  EXPECT_NEAR(FeaturesOf(load).requests_per_s, static_cast<double>(kept.size()) * 8 / 10, 10);
}

// A load that grew: first everything is told, then an eighth.
TEST(SampledLoadTest, WhereTheShareChangedAllIsThinnedToTheSmallest) {
  const std::vector<StreamEntry> all = Stream(100'000);
  const auto middle = all.begin() + 40'000;
  SampledLoad sampled(kVolume);
  sampled.Add(std::vector(all.begin(), middle), 1);
  sampled.Add(Sampled(std::vector(middle, all.end()), 3), 0.125);

  const RequestStream load = BuildAll(sampled);

  EXPECT_EQ(load.time_divisor(), 8u);
  const double kept = static_cast<double>(Sampled(all, 3).size());
  EXPECT_NEAR(static_cast<double>(load.request_count()), kept, 2);
  EXPECT_NEAR(FeaturesOf(load).requests_per_s, 10'000, 500);
}

TEST(SampledLoadTest, SampledRegionsMoveTogetherInTheirOrder) {
  std::vector<StreamEntry> entries;
  std::vector<uint64_t> regions;
  for (uint64_t region = 0; regions.size() < 5; ++region) {
    if (!StreamSampler::InSample(region, 3)) continue;
    regions.push_back(region);
    // The last one first; at a place of its own in the region.
    entries.insert(entries.begin(), {.time_ns = 2 * kNsPerS - region,
                                     .op = 'W',
                                     .offset = region * kRegion + 8 * kBlockBytes,
                                     .bytes = 2 * kBlockBytes});
  }
  SampledLoad sampled(kVolume);
  sampled.Add(entries, 0.125);

  const RequestStream load = BuildAll(sampled);

  ASSERT_EQ(load.requests().size(), 5u);
  for (uint64_t i = 0; i < 5; ++i) {
    // In order of time: the last region began first.
    const Request& request = load.requests()[4 - i];
    EXPECT_EQ(load.PlaceOf(request.first_block), i * kRegion / kBlockBytes + 8) << i;
    EXPECT_EQ(request.blocks, 2);
  }
}

TEST(SampledLoadTest, ContentIsWhatWasToldAndElsewhereLikeIt) {
  std::vector<StreamEntry> entries;
  for (uint64_t i = 0; i < 4'000; ++i) {
    StreamEntry entry{.time_ns = kNsPerS + i * kNsPerUs,
                      .op = 'W',
                      .offset = i * 2 * kBlockBytes,
                      .bytes = 2 * kBlockBytes};
    entry.has_content = i % 4 == 0;
    if (entry.has_content) {
      // Each content twice: half of what is known repeats something.
      entry.fingerprint = 1 + i / 4 % 500;
      entry.compressed_per_mille = i % 8 == 0 ? 200 : 600;
    }
    entries.push_back(entry);
  }
  SampledLoad sampled(kVolume);
  sampled.Add(entries, 1);

  const RequestStream load = BuildAll(sampled);

  size_t shrink = 0;
  size_t alike = 0;
  for (size_t i = 0; i < load.requests().size(); ++i) {
    const Request& request = load.requests()[i];
    ASSERT_NE(request.content, Request::kUnique);
    const uint32_t first = load.contents()[request.content];
    const uint32_t second = load.contents()[request.content + 1];
    // Both blocks of a write repeat, or neither; they differ.
    EXPECT_EQ(first == 0, second == 0);
    EXPECT_TRUE(first == 0 || first != second);
    if (i % 4 == 0) {
      EXPECT_EQ(request.compressed_per_mille, i % 8 == 0 ? 200 : 600);
      EXPECT_NE(first, 0u);
    } else {
      alike += first != 0 ? 1 : 0;
      shrink += request.compressed_per_mille == 200 ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(shrink), 1'500, 150);
  EXPECT_NEAR(static_cast<double>(alike), 1'500, 150);
}

TEST(SampledLoadTest, NothingKnownOfContentsMeansUniqueAndIncompressible) {
  SampledLoad sampled(kVolume);
  sampled.Add(Stream(1'000), 1);

  const RequestStream load = BuildAll(sampled);

  EXPECT_EQ(load.content_count(), 0u);
  for (const Request& request : load.requests()) {
    EXPECT_TRUE(request.kind != RequestKind::kWrite || request.compressed_per_mille == 1'000);
  }
}

TEST(SampledLoadTest, ATimeWithoutRequestsIsAnError) {
  SampledLoad sampled(kVolume);
  sampled.Add(Stream(100), 1);

  EXPECT_EQ(sampled.Build(0, kNsPerS, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

// A sample of a sample is the load of a node as small as both say.
TEST(SampledLoadTest, ASampleCanBeSampledFurther) {
  SampledLoad sampled(kVolume);
  sampled.Add(Sampled(Stream(100'000), 3), 0.125);
  const RequestStream load = BuildAll(sampled);

  const RequestStream smaller = load.Sample(4, 1);

  EXPECT_EQ(smaller.time_divisor(), 32u);
  EXPECT_NEAR(smaller.divisor(), 4 * load.divisor(), 0.05 * smaller.divisor());
}

}  // namespace
}  // namespace ebb::twin
