#include "env/twin/read_cache_model.h"

#include <list>
#include <unordered_map>

#include "base/rng.h"
#include "base/units.h"
#include "gtest/gtest.h"

namespace ebb::twin {
namespace {

constexpr uint32_t kBlocks = 4'096;

class ReadCacheModelTest : public ::testing::Test {
 protected:
  ReadCacheModelTest() : table_(kBlocks), cache_(table_) {}
  // True: a hit.
  bool Read(uint32_t block) {
    if (SlotOf(table_[block]) != 0) {
      cache_.Touch(table_[block], block);
      return true;
    }
    if (cache_.Admits(block, storage::ReadAdmissionPolicy::ReadFrom::kCapacity)) {
      const uint32_t slot = cache_.Allocate();
      if (slot != ReadCacheModel::kNoSlot) cache_.Publish(slot, block);
    }
    return false;
  }
  uint64_t Held() const {
    uint64_t held = 0;
    for (const BlockState& state : table_) held += SlotOf(state) != 0 ? 1 : 0;
    return held;
  }

  BlockTable table_;
  ReadCacheModel cache_;
};

TEST_F(ReadCacheModelTest, LruHitsWhatAReferenceHits) {
  cache_.SetPolicy(storage::ReadPolicy::kLru);
  cache_.SetTargetBytes(2 * kMiB, 1);
  Rng rng(3);
  std::list<uint32_t> order;
  std::unordered_map<uint32_t, std::list<uint32_t>::iterator> where;

  for (int i = 0; i < 50'000; ++i) {
    const auto block = static_cast<uint32_t>(rng.Below(64) * rng.Below(64));
    const auto found = where.find(block);
    const bool expected = found != where.end();
    if (expected) order.erase(found->second);
    order.push_front(block);
    where[block] = order.begin();
    if (order.size() > 512) {
      where.erase(order.back());
      order.pop_back();
    }
    ASSERT_EQ(Read(block), expected) << "read " << i;
  }
}

TEST_F(ReadCacheModelTest, SecondHitKeepsOneTimeReadsOut) {
  cache_.SetTargetBytes(kMiB, 1);
  cache_.SetAdmission(storage::ReadAdmission::kSecondHit);
  for (uint32_t block = 0; block < 200; ++block) Read(block);
  EXPECT_EQ(cache_.used_blocks(), 0u);

  for (uint32_t block = 0; block < 200; ++block) Read(block);

  EXPECT_EQ(cache_.used_blocks(), 200u);
}

TEST_F(ReadCacheModelTest, FrequencyProtectsWhatIsReadOften) {
  cache_.SetTargetBytes(kMiB, 1);
  cache_.SetPolicy(storage::ReadPolicy::kLru);
  cache_.SetAdmission(storage::ReadAdmission::kFrequency);
  for (int round = 0; round < 8; ++round) {
    for (uint32_t block = 0; block < 256; ++block) Read(block);
  }
  for (int round = 0; round < 2; ++round) {
    for (uint32_t block = 1'000; block < 2'000; ++block) Read(block);
  }

  uint32_t hits = 0;
  for (uint32_t block = 0; block < 256; ++block) hits += Read(block) ? 1 : 0;
  EXPECT_GT(hits, 230u);
}

TEST_F(ReadCacheModelTest, AChangeOfPolicyKeepsTheContentAndEvictsTheOldFirst) {
  cache_.SetTargetBytes(kMiB, 1);
  for (uint32_t block = 0; block < 256; ++block) Read(block);

  cache_.SetPolicy(storage::ReadPolicy::kLru);
  EXPECT_TRUE(Read(17));  // now the new policy's
  for (uint32_t block = 1'000; block < 1'255; ++block) Read(block);

  EXPECT_EQ(cache_.used_blocks(), 256u);
  EXPECT_TRUE(Read(17));
}

TEST_F(ReadCacheModelTest, ShrinksAndGrowsAtOnce) {
  cache_.SetTargetBytes(2 * kMiB, 1);
  for (uint32_t block = 0; block < 512; ++block) Read(block);
  const uint32_t filling = cache_.Allocate();

  cache_.SetTargetBytes(kMiB, 1);
  EXPECT_LE(cache_.used_blocks(), 256u);
  EXPECT_EQ(Held(), cache_.used_blocks());
  cache_.SetTargetBytes(2 * kMiB, 1);
  cache_.Publish(filling, 4'000);

  for (uint32_t block = 600; block < 2'000; ++block) Read(block);
  EXPECT_EQ(cache_.used_blocks(), 512u);
  EXPECT_EQ(Held(), 512u);
}

TEST_F(ReadCacheModelTest, AWrittenBlockLeaves) {
  cache_.SetTargetBytes(kMiB, 1);
  Read(5);
  ASSERT_NE(SlotOf(table_[5]), 0u);

  cache_.Erase(table_[5]);

  EXPECT_EQ(SlotOf(table_[5]), 0u);
  EXPECT_EQ(cache_.used_blocks(), 0u);
}

TEST_F(ReadCacheModelTest, ASampleHasAPartOfTheSlots) {
  cache_.SetTargetBytes(10 * kMiB, 10);
  for (uint32_t block = 0; block < 2'000; ++block) Read(block);

  EXPECT_EQ(cache_.used_blocks(), 256u);
}

}  // namespace
}  // namespace ebb::twin
