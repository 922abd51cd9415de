#include "storage-backend/volume/read_cache.h"

#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kChunkBytes = ReadCache::kChunkSlots * ReadCache::kSlotBytes;

void Resize(ReadCache& cache, uint64_t chunks) {
  cache.SetTargetBytes(chunks * kChunkBytes);
  while (cache.WantsToGrow()) cache.AddChunk(std::make_unique<ReadCache::Chunk>());
  while (cache.WantsToShrink()) {
    if (cache.RemoveChunk().empty()) return;
  }
}

void Put(ReadCache& cache, uint64_t block, uint64_t version) {
  ReadCache::Slot* slot = cache.Allocate();
  ASSERT_NE(slot, nullptr);
  std::memcpy(slot->data, &version, sizeof version);
  cache.Publish(slot, block, 0);
}

// 0: not there.
uint64_t Get(ReadCache& cache, uint64_t block) {
  ReadCache::Slot* slot = cache.FindAndPin(block);
  if (slot == nullptr) return 0;
  uint64_t version = 0;
  std::memcpy(&version, slot->data, sizeof version);
  slot->Unpin();
  return version;
}

TEST(ReadCacheTest, OffUntilItHasMemory) {
  ReadCache cache;
  EXPECT_TRUE(cache.off());
  EXPECT_EQ(cache.Allocate(), nullptr);
  EXPECT_FALSE(cache.Admits(1, ReadAdmissionPolicy::ReadFrom::kCapacity));
}

TEST(ReadCacheTest, PinnedSlotIsNeitherReusedNorFreed) {
  ReadCache cache;
  Resize(cache, 1);
  Put(cache, 7, 77);
  ReadCache::Slot* pinned = cache.FindAndPin(7);

  for (uint64_t block = 1000; block < 2000; ++block) Put(cache, block, block);
  EXPECT_EQ(Get(cache, 7), 0U);
  uint64_t version = 0;
  std::memcpy(&version, pinned->data, sizeof version);
  EXPECT_EQ(version, 77U);

  cache.SetTargetBytes(0);
  EXPECT_TRUE(cache.RemoveChunk().empty());
  EXPECT_TRUE(cache.off());
  pinned->Unpin();
  EXPECT_EQ(cache.RemoveChunk().size(), 1U);
  EXPECT_FALSE(cache.WantsToShrink());
}

TEST(ReadCacheTest, SlotOfARemovedChunkIsNotPublished) {
  ReadCache cache;
  Resize(cache, 1);
  ReadCache::Slot* slot = cache.Allocate();
  cache.SetTargetBytes(0);
  EXPECT_TRUE(cache.RemoveChunk().empty());

  cache.Publish(slot, 1, 0);

  EXPECT_EQ(Get(cache, 1), 0U);
  EXPECT_EQ(cache.RemoveChunk().size(), 1U);
}

// Goal: whatever happens, what is found is the newest that was put and not erased since.
TEST(ReadCacheTest, AgreesWithAModelThroughResizesAndPolicyChanges) {
  Rng rng(9);
  ReadCache cache;
  Resize(cache, 2);
  std::map<uint64_t, uint64_t> model;
  for (uint64_t step = 1; step < 200'000; ++step) {
    const uint64_t block = rng.Below(2000);
    const uint64_t action = rng.Below(1000);
    if (action < 400) {
      const uint64_t found = Get(cache, block);
      if (found != 0) {
        ASSERT_EQ(found, model[block]);
      }
    } else if (action < 900) {
      if (cache.off() ||
          (rng.Chance(0.5) && !cache.Admits(block, ReadAdmissionPolicy::ReadFrom::kCapacity)))
        continue;
      Put(cache, block, step);
      model[block] = step;
    } else if (action < 990) {
      const uint64_t count = rng.Chance(0.01) ? 1500 : 1 + rng.Below(10);
      cache.Erase(block, count);
      for (uint64_t b = block; b < block + count; ++b) {
        ASSERT_EQ(Get(cache, b), 0U);
      }
    } else if (action < 995) {
      Resize(cache, rng.Below(5));
    } else {
      cache.SetPolicy(rng.Chance(0.5) ? ReadPolicy::kLru : ReadPolicy::kS3Fifo);
      cache.SetAdmission(static_cast<ReadAdmission>(rng.Below(3)));
    }
  }
}

}  // namespace
}  // namespace ebb::storage
