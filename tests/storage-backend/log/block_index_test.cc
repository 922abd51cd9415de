#include "storage-backend/log/block_index.h"

#include <unordered_map>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::storage {
namespace {

// Goal: prove the table against a model, at full load, where probe sequences wrap and collide.
TEST(BlockIndexTest, AgreesWithAModelUnderRandomUse) {
  for (const size_t entries_max : {size_t{8}, size_t{100}, size_t{3000}}) {
    Rng rng(entries_max);
    BlockIndex index(entries_max);
    std::unordered_map<uint32_t, uint32_t> model;
    for (int step = 0; step < 100'000; ++step) {
      const auto key = static_cast<uint32_t>(rng.Below(entries_max * 2));
      if (rng.Chance(0.4)) {
        EXPECT_EQ(index.Erase(key), model.erase(key) == 1);
      } else if (model.size() < entries_max || model.contains(key)) {
        const auto value = static_cast<uint32_t>(rng.Below(1 << 30) + 1);
        const auto before = model.find(key);
        EXPECT_EQ(index.Put(key, value), before == model.end() ? 0 : before->second);
        model[key] = value;
      }
      const auto probe = static_cast<uint32_t>(rng.Below(entries_max * 2));
      const auto found = model.find(probe);
      ASSERT_EQ(index.Find(probe), found == model.end() ? 0 : found->second);
      ASSERT_EQ(index.size(), model.size());
    }
  }
}

TEST(BlockIndexTest, TakesEveryKeyTheHighestIncluded) {
  BlockIndex index(4);

  index.Put(0xffffffff, 7);
  index.Put(0, 8);

  EXPECT_EQ(index.Find(0xffffffff), 7U);
  EXPECT_EQ(index.Find(0), 8U);
  EXPECT_EQ(index.Find(1), 0U);
}

TEST(BlockIndexTest, CostsAtMostElevenBytesAnEntry) {
  const BlockIndex index(1'000'000);

  EXPECT_LE(index.memory_bytes(), 11U * 1'000'000);
}

}  // namespace
}  // namespace ebb::storage
