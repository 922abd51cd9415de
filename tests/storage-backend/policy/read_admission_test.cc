#include "storage-backend/policy/read_admission.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "storage-backend/policy/eviction_policy.h"
#include "storage-backend/policy/ghost_table.h"
#include "tests/storage-backend/policy/key_cache.h"

namespace ebb::storage {
namespace {

ReadAdmissionPolicy Make(ReadAdmission kind, uint32_t slot_count) {
  ReadAdmissionPolicy admission;
  admission.SetKind(kind);
  admission.Resize(slot_count);
  return admission;
}

constexpr auto kDisk = ReadAdmissionPolicy::ReadFrom::kCapacity;
constexpr auto kCacheDevice = ReadAdmissionPolicy::ReadFrom::kCacheDevice;

TEST(ReadAdmissionPolicyTest, AlwaysAdmitsWhenAskedTo) {
  ReadAdmissionPolicy admission = Make(ReadAdmission::kAlways, 16);

  EXPECT_TRUE(admission.Admit(1, kDisk, 2));
}

// Goal: uniform reads from the cache device, of far more than fits in memory, are not all copied.
TEST(ReadAdmissionPolicyTest, WhatTheCacheDeviceServesEntersAtItsSecondRead) {
  for (const auto kind :
       {ReadAdmission::kAlways, ReadAdmission::kSecondHit, ReadAdmission::kFrequency}) {
    ReadAdmissionPolicy admission = Make(kind, 16);
    EXPECT_FALSE(admission.Admit(1, kCacheDevice, std::nullopt));
    EXPECT_TRUE(admission.Admit(1, kCacheDevice, std::nullopt));
  }
}

TEST(ReadAdmissionPolicyTest, SecondHitAdmitsTheSecondMissOnly) {
  ReadAdmissionPolicy admission = Make(ReadAdmission::kSecondHit, 16);

  EXPECT_FALSE(admission.Admit(1, kDisk, std::nullopt));
  EXPECT_TRUE(admission.Admit(1, kDisk, std::nullopt));
  EXPECT_FALSE(admission.Admit(1, kDisk, std::nullopt));  // its memory was used up
}

TEST(ReadAdmissionPolicyTest, ForgetsAfterAsManyMissesAsSlots) {
  ReadAdmissionPolicy admission = Make(ReadAdmission::kSecondHit, 100);
  EXPECT_FALSE(admission.Admit(1, kDisk, std::nullopt));

  for (uint64_t key = 1000; key < 1100; ++key) admission.Admit(key, kDisk, std::nullopt);

  EXPECT_FALSE(admission.Admit(1, kDisk, std::nullopt));
}

TEST(ReadAdmissionPolicyTest, SettingWhatIsSetForgetsNothing) {
  ReadAdmissionPolicy admission = Make(ReadAdmission::kSecondHit, 100);
  EXPECT_FALSE(admission.Admit(1, kDisk, std::nullopt));

  admission.SetKind(ReadAdmission::kSecondHit);
  admission.Resize(100);

  EXPECT_TRUE(admission.Admit(1, kDisk, std::nullopt));
}

TEST(ReadAdmissionPolicyTest, FrequencyAdmitsWhatIsAskedForMoreOftenThanTheVictim) {
  ReadAdmissionPolicy admission = Make(ReadAdmission::kFrequency, 100);
  EXPECT_TRUE(admission.Admit(7, kDisk, std::nullopt));  // there is room
  admission.OnHit(7);                                    // seen twice

  EXPECT_FALSE(admission.Admit(1, kDisk, 7));
  EXPECT_FALSE(admission.Admit(1, kDisk, 7));
}

// Keys from `first`, the n-th with a share of about 1 / n^0.9.
class Zipf {
 public:
  Zipf(uint64_t count, uint64_t first) : first_(first) {
    double sum = 0;
    for (uint64_t n = 1; n <= count; ++n) {
      sum += std::pow(static_cast<double>(n), -0.9);
      sums_.push_back(sum);
    }
  }
  uint64_t Next(Rng& rng) const {
    const double at = rng.Uniform() * sums_.back();
    return first_ +
           static_cast<uint64_t>(std::lower_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
  }

 private:
  uint64_t first_;
  std::vector<double> sums_;
};

class FrequencyAdmissionTest : public ::testing::TestWithParam<std::string> {
 protected:
  static KeyCache Cache(ReadAdmission kind) {
    return {GetParam() == "lru" ? MakeLruPolicy() : MakeS3FifoPolicy(), 1000, kind};
  }
  // Hits among `reads` of a popular set ten times the cache, one read in two of a scan between.
  static int Hits(KeyCache& cache, const Zipf& zipf, int reads) {
    Rng rng(11);
    uint64_t scan = 1'000'000;
    int hits = 0;
    for (int i = 0; i < reads; ++i) {
      cache.Get(scan++);
      hits += cache.Get(zipf.Next(rng)) ? 1 : 0;
    }
    return hits;
  }
};

// Goal: prove what frequency admission is for. The ideal cache would have 33,550 hits.
TEST_P(FrequencyAdmissionTest, BeatsAlwaysUnderAScan) {
  const Zipf zipf(10'000, 0);
  const auto hits = [&](ReadAdmission kind) {
    KeyCache cache = Cache(kind);
    Hits(cache, zipf, 50'000);
    return Hits(cache, zipf, 50'000);
  };

  const int frequency = hits(ReadAdmission::kFrequency);

  EXPECT_GT(frequency, hits(ReadAdmission::kAlways));
  EXPECT_GT(frequency, 32'000);
  if (GetParam() == "lru") {
    EXPECT_GT(frequency, hits(ReadAdmission::kSecondHit));
  }
}

// Goal: what is read now and then does not displace what is read all the time, which is where
// second hit is helpless. Method: after each read of the popular set, an unpopular block twice.
TEST_P(FrequencyAdmissionTest, BlocksReadTwiceDisplaceNothingPopular) {
  const auto hits = [&](ReadAdmission kind) {
    KeyCache cache = Cache(kind);
    Rng rng(5);
    int count = 0;
    for (uint64_t i = 0; i < 40'000; ++i) {
      count += cache.Get(rng.Below(900)) ? 1 : 0;
      cache.Get(1'000'000 + i);
      cache.Get(1'000'000 + i);
    }
    return count;
  };

  const int frequency = hits(ReadAdmission::kFrequency);
  EXPECT_GT(frequency, hits(ReadAdmission::kSecondHit));
  if (GetParam() == "lru") {  // S3-FIFO itself wants three reads
    EXPECT_GT(frequency, hits(ReadAdmission::kAlways));
  }
}

// Goal: what was popular once does not hold its place for ever.
TEST_P(FrequencyAdmissionTest, NewPopularSetTakesOver) {
  KeyCache cache = Cache(ReadAdmission::kFrequency);
  const Zipf before(10'000, 0);
  const Zipf after(10'000, 500'000);
  Hits(cache, before, 50'000);
  const int settled = Hits(cache, before, 20'000);

  Hits(cache, after, 20'000);
  EXPECT_GT(Hits(cache, after, 20'000), settled * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(Policies, FrequencyAdmissionTest, ::testing::Values("lru", "s3fifo"),
                         [](const auto& test) { return test.param; });

TEST(FrequencySketchTest, CountsUpToItsMaximumAndForgetsWithTime) {
  FrequencySketch sketch;
  sketch.Reset(1024);
  for (int i = 0; i < 5; ++i) sketch.Add(1);
  for (int i = 0; i < 100; ++i) sketch.Add(2);
  EXPECT_EQ(sketch.Count(1), 5U);
  EXPECT_EQ(sketch.Count(2), FrequencySketch::kCountMax);
  EXPECT_EQ(sketch.Count(3), 0U);

  for (int i = 0; i < 8 * 1024; ++i) sketch.Add(4);

  EXPECT_LE(sketch.Count(1), 2U);
  EXPECT_LE(sketch.Count(2), 8U);
  EXPECT_GT(sketch.Count(2), 3U);
}

TEST(FrequencySketchTest, RarelyTakesAKeyForAnother) {
  FrequencySketch sketch;
  sketch.Reset(1000);
  for (uint64_t key = 0; key < 1000; ++key) {
    for (int i = 0; i < 3; ++i) sketch.Add(key);
  }
  int mistaken = 0;
  for (uint64_t key = 100'000; key < 110'000; ++key) mistaken += sketch.Count(key) > 2 ? 1 : 0;

  EXPECT_LT(mistaken, 100);
}

TEST(FrequencySketchTest, OfNoSlotsCountsNothing) {
  FrequencySketch sketch;
  sketch.Add(1);

  EXPECT_EQ(sketch.Count(1), 0U);
}

TEST(GhostTableTest, RemembersNearlyAllOfItsCapacity) {
  GhostTable table;
  table.Reset(1000);
  for (uint64_t key = 0; key < 1000; ++key) table.Add(key);

  int remembered = 0;
  for (uint64_t key = 0; key < 1000; ++key) remembered += table.Contains(key) ? 1 : 0;
  int mistaken = 0;
  for (uint64_t key = 5000; key < 15'000; ++key) mistaken += table.Contains(key) ? 1 : 0;

  EXPECT_GT(remembered, 900);
  EXPECT_EQ(mistaken, 0);
}

TEST(GhostTableTest, OfNoCapacityRemembersNothing) {
  GhostTable table;
  table.Reset(0);
  table.Add(1);

  EXPECT_FALSE(table.Contains(1));
  EXPECT_FALSE(table.Take(1));
}

}  // namespace
}  // namespace ebb::storage
