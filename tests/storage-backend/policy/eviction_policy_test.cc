#include "storage-backend/policy/eviction_policy.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/storage-backend/policy/key_cache.h"

namespace ebb::storage {
namespace {

class EvictionPolicyTest : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<EvictionPolicy> Make() {
    return GetParam() == "lru" ? MakeLruPolicy() : MakeS3FifoPolicy();
  }
};

TEST_P(EvictionPolicyTest, EvictsEveryKnownSlotOnce) {
  const auto policy = Make();
  policy->Resize(100);
  for (uint32_t slot = 0; slot < 100; ++slot) policy->Insert(slot, slot);
  for (uint32_t slot = 0; slot < 100; slot += 3) policy->Touch(slot);

  std::vector<uint32_t> evicted;
  for (uint32_t slot = policy->Evict(); slot != kNoSlot; slot = policy->Evict()) {
    evicted.push_back(slot);
  }

  std::sort(evicted.begin(), evicted.end());
  ASSERT_EQ(evicted.size(), 100U);
  for (uint32_t slot = 0; slot < 100; ++slot) EXPECT_EQ(evicted[slot], slot);
  EXPECT_EQ(policy->size(), 0U);
}

TEST_P(EvictionPolicyTest, VictimIsWhatIsEvictedNext) {
  Rng rng(5);
  const auto policy = Make();
  policy->Resize(100);
  EXPECT_EQ(policy->Victim(), kNoSlot);
  for (uint32_t slot = 0; slot < 100; ++slot) policy->Insert(slot, slot);
  for (int i = 0; i < 300; ++i) policy->Touch(static_cast<uint32_t>(rng.Below(100)));

  for (size_t left = 100; left > 0; --left) {
    const uint32_t victim = policy->Victim();
    EXPECT_EQ(policy->Victim(), victim);
    EXPECT_EQ(policy->size(), left);
    EXPECT_EQ(policy->Evict(), victim);
  }
}

TEST_P(EvictionPolicyTest, StaysConsistentUnderRandomUseAndErasure) {
  Rng rng(7);
  KeyCache cache(Make(), 64);

  for (int step = 0; step < 20'000; ++step) {
    const uint64_t key = rng.Below(200);
    if (rng.Chance(0.1)) {
      cache.Drop(key);
      ASSERT_FALSE(cache.Holds(key));
    } else {
      cache.Get(key);
      ASSERT_TRUE(cache.Holds(key));
    }
    ASSERT_EQ(cache.size(), cache.policy().size());
    ASSERT_LE(cache.size(), 64U);
  }
}

TEST_P(EvictionPolicyTest, GrowsWithoutForgetting) {
  KeyCache small(Make(), 16);
  for (uint64_t key = 0; key < 16; ++key) small.Get(key);

  small.policy().Resize(64);

  EXPECT_EQ(small.policy().size(), 16U);
  for (uint64_t key = 0; key < 16; ++key) EXPECT_TRUE(small.Get(key));
}

INSTANTIATE_TEST_SUITE_P(All, EvictionPolicyTest, ::testing::Values("lru", "s3fifo"),
                         [](const auto& test) { return test.param; });

TEST(LruPolicyTest, EvictsInOrderOfUse) {
  KeyCache cache(MakeLruPolicy(), 3);
  cache.Get(1);
  cache.Get(2);
  cache.Get(3);
  cache.Get(1);

  cache.Get(4);

  EXPECT_FALSE(cache.Holds(2));
  EXPECT_TRUE(cache.Holds(1));
  EXPECT_TRUE(cache.Holds(3));
}

TEST(S3FifoPolicyTest, KeyThatComesBackEntersTheMainQueue) {
  KeyCache cache(MakeS3FifoPolicy(), 100);
  for (uint64_t key = 0; key < 200; ++key) cache.Get(key);  // key 50 is out and remembered
  ASSERT_FALSE(cache.Holds(50));
  cache.Get(50);

  for (uint64_t key = 1000; key < 1500; ++key) cache.Get(key);  // a scan, five caches long

  EXPECT_TRUE(cache.Holds(50));
}

// Goal: prove what S3-FIFO is the default for. Method: a hot set that fits, with a scan twice the
// cache running through it; compare the hot set's hits with LRU's.
TEST(S3FifoPolicyTest, ResistsAScanThatEmptiesLru) {
  const auto hot_hits = [](std::unique_ptr<EvictionPolicy> policy) {
    Rng rng(3);
    KeyCache cache(std::move(policy), 1000);
    for (int i = 0; i < 20'000; ++i) cache.Get(rng.Below(800));
    int hits = 0;
    uint64_t scan = 1'000'000;
    for (int i = 0; i < 20'000; ++i) {
      for (int s = 0; s < 4; ++s) cache.Get(scan++);
      if (cache.Get(rng.Below(800))) ++hits;
    }
    return hits;
  };

  const int s3_fifo_hits = hot_hits(MakeS3FifoPolicy());
  const int lru_hits = hot_hits(MakeLruPolicy());

  EXPECT_GT(s3_fifo_hits, 15'000);
  EXPECT_LT(lru_hits, 8'000);
}

}  // namespace
}  // namespace ebb::storage
