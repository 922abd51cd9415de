#include "storage-backend/capacity/block_map.h"

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "storage-backend/metadata/metadata_wrapper.h"

namespace ebb::storage {
namespace {

// A page in memory takes about 1.6 KB; each of the 16 shards keeps at least one.
constexpr uint64_t kSmallCache = 1;

MapEntry At(uint64_t place) { return MapEntry::Direct(0, place * kCapacityBlockBytes, 7); }

// Counts look-ups of pages.
class CountingMetadata final : public MetadataWrapper {
 public:
  CountingMetadata() : MetadataWrapper(std::make_unique<MemMetadata>()) {}
  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    ++gets;
    return inner().Get(table, key);
  }
  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      Table table, const std::vector<std::string>& keys) override {
    gets += keys.size();
    return inner().MultiGet(table, keys);
  }

  std::atomic<uint64_t> gets{0};
};

class BlockMapTest : public testing::Test {
 protected:
  // Applies one change as a commit of the tier does.
  void Change(BlockMap& map, const std::map<uint64_t, MapEntry>& changes) {
    std::vector<uint64_t> blocks;
    std::vector<MapChange> list;
    for (const auto& [block, entry] : changes) {
      blocks.push_back(block);
      list.push_back({block, entry});
    }
    std::vector<MapEntry> before(blocks.size());
    ASSERT_TRUE(map.Hold(blocks, before).ok());
    for (size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(before[i], Expected(blocks[i]));
    map.Apply(list, ++sequence_);
    for (const auto& [block, entry] : changes) expected_[block] = entry;
  }
  // Returns how many pages were written.
  size_t WriteBack(BlockMap& map, uint64_t below, uint64_t dirty_bytes_max = UINT64_MAX) {
    MetadataBatch batch;
    map.WriteBack(below, dirty_bytes_max, batch);
    EXPECT_TRUE(metadata_.Commit(batch, true).ok());
    map.WrittenBack();
    return batch.changes().size();
  }
  MapEntry Expected(uint64_t block) const {
    const auto found = expected_.find(block);
    return found == expected_.end() ? MapEntry() : found->second;
  }
  void ExpectAll(BlockMap& map, uint64_t blocks) {
    std::vector<MapEntry> entries(blocks);
    ASSERT_TRUE(map.Read(0, entries).ok());
    for (uint64_t block = 0; block < blocks; ++block) {
      ASSERT_EQ(entries[block], Expected(block)) << block;
    }
  }

  CountingMetadata metadata_;
  std::map<uint64_t, MapEntry> expected_;
  uint64_t sequence_ = 0;
};

TEST_F(BlockMapTest, ReadsWhatWasAppliedAcrossPages) {
  BlockMap map(metadata_, 1 << 20);
  Change(map, {{0, At(1)}, {127, At(2)}, {128, At(3)}, {1000, At(4)}});
  Change(map, {{127, At(5)}, {128, MapEntry()}});

  ExpectAll(map, 1100);
}

TEST_F(BlockMapTest, ChangesAreInTheTableOnlyAfterWriteBack) {
  BlockMap map(metadata_, 1 << 20);
  Change(map, {{5, At(1)}, {500, At(2)}});
  Change(map, {{6, At(3)}, {900, At(4)}});
  EXPECT_EQ(map.oldest_dirty(), 1u);

  EXPECT_EQ(WriteBack(map, 1), 0u);
  EXPECT_EQ(WriteBack(map, 2), 2u);  // pages 0 and 3
  EXPECT_EQ(map.oldest_dirty(), 2u);
  BlockMap reopened(metadata_, 1 << 20);
  expected_.erase(900);
  ExpectAll(reopened, 1000);
  EXPECT_EQ(WriteBack(map, 3), 1u);
  EXPECT_EQ(map.oldest_dirty(), BlockMap::kNothingDirty);
}

TEST_F(BlockMapTest, TheOldestDirtyPagesGoWhenThereAreTooMany) {
  BlockMap map(metadata_, 1 << 20);
  for (uint64_t page = 0; page < 10; ++page) Change(map, {{page * kPageBlocks, At(page)}});

  EXPECT_EQ(WriteBack(map, 0, 4 * 1700), 6u);

  EXPECT_EQ(map.oldest_dirty(), 7u);
  ExpectAll(map, 10 * kPageBlocks);
}

TEST_F(BlockMapTest, EmptiedPagesLeaveTheTable) {
  BlockMap map(metadata_, 1 << 20);
  Change(map, {{5, At(1)}});
  WriteBack(map, 100);
  EXPECT_EQ(*map.PagesFrom(0, 100, 10), std::vector<uint64_t>{0});
  Change(map, {{5, MapEntry()}});
  WriteBack(map, 100);

  EXPECT_TRUE(map.PagesFrom(0, 100, 10)->empty());
}

TEST_F(BlockMapTest, PagesFromFindsThoseOnDiskAndThoseInMemoryInOrder) {
  BlockMap map(metadata_, 1 << 20);
  Change(map, {{0, At(1)}, {4 * kPageBlocks, At(2)}, {8 * kPageBlocks, At(3)}});
  WriteBack(map, 100);
  Change(map, {{2 * kPageBlocks, At(4)}, {4 * kPageBlocks, At(5)}, {9 * kPageBlocks, At(5)}});

  EXPECT_EQ(*map.PagesFrom(0, 100, 10), (std::vector<uint64_t>{0, 2, 4, 8, 9}));
  EXPECT_EQ(*map.PagesFrom(1, 9, 10), (std::vector<uint64_t>{2, 4, 8}));
  // Cut where the table's part ends, so that the next call misses nothing.
  EXPECT_EQ(*map.PagesFrom(0, 100, 2), (std::vector<uint64_t>{0, 2, 4}));
  EXPECT_EQ(*map.PagesFrom(5, 100, 2), (std::vector<uint64_t>{8, 9}));
}

TEST_F(BlockMapTest, PagesInMemoryAreNotLookedUpAgain) {
  BlockMap map(metadata_, 1 << 20);
  Change(map, {{0, At(1)}});
  WriteBack(map, 100);
  const uint64_t gets = metadata_.gets;

  ExpectAll(map, kPageBlocks);

  EXPECT_EQ(metadata_.gets, gets);
}

// Goal: memory is bounded, and what is forgotten is read again.
TEST_F(BlockMapTest, CleanPagesAreForgottenDirtyOnesAreNot) {
  BlockMap map(metadata_, kSmallCache);
  for (uint64_t page = 0; page < 200; ++page) Change(map, {{page * kPageBlocks, At(page)}});
  uint64_t gets = metadata_.gets;
  ExpectAll(map, 200 * kPageBlocks);
  EXPECT_EQ(metadata_.gets, gets);  // all dirty, all there

  WriteBack(map, UINT64_MAX);
  for (int round = 0; round < 2; ++round) {
    gets = metadata_.gets;
    ExpectAll(map, 400 * kPageBlocks);
  }

  EXPECT_GE(metadata_.gets - gets, 384u);  // at most a page in each of 16 shards
}

TEST_F(BlockMapTest, RandomChangesAndWriteBacksMatchAModel) {
  BlockMap map(metadata_, kSmallCache);
  Rng rng(1);
  constexpr uint64_t kBlocks = 60 * kPageBlocks;
  for (int round = 0; round < 500; ++round) {
    std::map<uint64_t, MapEntry> changes;
    for (uint64_t i = rng.Below(40) + 1; i > 0; --i) {
      changes[rng.Below(kBlocks)] = rng.Chance(0.3) ? MapEntry() : At(rng.Below(1000));
    }
    Change(map, changes);
    WriteBack(map, sequence_ - rng.Below(20), rng.Below(40) * 1700);
    if (round % 50 == 0) ExpectAll(map, kBlocks);
  }
  ExpectAll(map, kBlocks);
  WriteBack(map, UINT64_MAX);
  BlockMap reopened(metadata_, 1 << 20);
  ExpectAll(reopened, kBlocks);
}

// Goal: a reader never caches a page older than what was applied.
// Method: one block counts up, in a page that is written back and forgotten all the time; readers
// never see it go back.
TEST_F(BlockMapTest, ReadersNeverSeeTimeGoBack) {
  BlockMap map(metadata_, kSmallCache);
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> backwards = 0;
  std::atomic<uint64_t> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] {
      Rng rng(static_cast<uint64_t>(i));
      uint64_t last = 0;
      while (!stop) {
        MapEntry entry;
        EXPECT_TRUE(map.Read(3, {&entry, 1}).ok());
        const uint64_t now = entry.mapped() ? entry.device_offset() : 0;
        if (now < last) ++backwards;
        last = now;
        // Pushes the page out.
        EXPECT_TRUE(map.Read((1 + rng.Below(64)) * kPageBlocks, {&entry, 1}).ok());
        ++reads;
      }
    });
  }
  for (uint64_t version = 1; version < 2000 || reads < 2000; ++version) {
    Change(map, {{3, At(version)}});
    WriteBack(map, UINT64_MAX);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(backwards, 0u);
}

}  // namespace
}  // namespace ebb::storage
