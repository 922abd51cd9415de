#include "storage-backend/capacity/segment_table.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

constexpr CapacityLayout kLayout{256 << 10};

SegmentTable MakeTable(std::vector<uint64_t> device_bytes) {
  return SegmentTable(kLayout, device_bytes);
}

// Writes extents of `bytes` until there is no room; returns how many on each device.
std::vector<int> FillUp(SegmentTable& table, size_t devices, uint64_t bytes) {
  std::vector<int> extents(devices);
  uint64_t sequence = 1;
  while (const auto place = table.NextExtent(Stream::kStore, bytes, &sequence)) {
    EXPECT_GE(place->limit_bytes, bytes);
    table.Use(*place, bytes);
    ++extents[place->id.device];
  }
  return extents;
}

TEST(SegmentTableTest, DevicesOfOneSizeTakeTurns) {
  SegmentTable table = MakeTable({4 << 20, 4 << 20, 4 << 20});
  uint64_t sequence = 1;
  std::array<int, 3> extents{};
  for (int i = 0; i < 9; ++i) {
    const auto place = table.NextExtent(Stream::kStore, 8192, &sequence);
    ASSERT_TRUE(place.has_value());
    ++extents[place->id.device];
    table.Use(*place, 8192);
  }
  for (const int count : extents) EXPECT_EQ(count, 3);
}

TEST(SegmentTableTest, LargerDevicesTakeMoreAndAllFillUp) {
  SegmentTable table = MakeTable({4 << 20, 12 << 20});

  const std::vector<int> extents = FillUp(table, 2, 256 << 10);

  // 15 and 47 segments; one is kept for compaction.
  EXPECT_EQ(extents[0] + extents[1], 61);
  EXPECT_GE(extents[0], 14);
  EXPECT_EQ(table.free_segments(), kCompactionSegments);
  uint64_t sequence = 1;
  EXPECT_TRUE(table.NextExtent(Stream::kCompaction, 8192, &sequence).has_value());
}

TEST(SegmentTableTest, RollbackRestoresEverything) {
  SegmentTable table = MakeTable({4 << 20});
  uint64_t sequence = 1;
  const auto first = table.NextExtent(Stream::kStore, 8192, &sequence);
  table.Use(*first, 8192);
  table.AddLive(first->id, 4124, 4124);
  std::vector<SegmentChange> changes;
  EXPECT_TRUE(table.Finish(changes).empty());
  table.Commit(1);
  const uint64_t free = table.free_segments();

  FillUp(table, 1, 128 << 10);
  table.AddLive(first->id, -4124, -4124);
  std::vector<SegmentChange> abandoned;
  EXPECT_FALSE(table.Finish(abandoned).empty());  // sealed by the fill and dead
  table.Rollback();

  EXPECT_EQ(table.free_segments(), free);
  EXPECT_EQ(table.written_bytes(), 8192u);
  EXPECT_EQ(table.live_bytes(), 4124u);
  EXPECT_EQ(table.Get(first->id).live_bytes, 4124u);
  const auto next = table.NextExtent(Stream::kStore, 8192, &sequence);
  EXPECT_EQ(next->id, first->id);
  EXPECT_EQ(next->offset_in_segment, 8192u);
}

TEST(SegmentTableTest, FreedSegmentsWaitForRelease) {
  SegmentTable table = MakeTable({4 << 20});
  uint64_t sequence = 1;
  const auto place = table.NextExtent(Stream::kStore, 256 << 10, &sequence);
  table.Use(*place, 256 << 10);
  table.AddLive(place->id, 1000, 1000);
  const auto second = table.NextExtent(Stream::kStore, 8192, &sequence);  // seals the first
  table.Use(*second, 8192);
  std::vector<SegmentChange> changes;
  EXPECT_TRUE(table.Finish(changes).empty());
  table.Commit(1);
  const uint64_t free = table.free_segments();

  table.AddLive(place->id, -1000, -1000);
  std::vector<SegmentChange> dead;
  ASSERT_EQ(table.Finish(dead), std::vector<SegmentId>{place->id});
  table.Commit(1);

  EXPECT_EQ(table.free_segments(), free);
  EXPECT_EQ(table.written_bytes(), (256u << 10) + 8192);
  table.Release(place->id);
  EXPECT_EQ(table.free_segments(), free + 1);
  EXPECT_EQ(table.written_bytes(), 8192u);
}

// Goal: what the metadata has not got yet is written back in the order of the journal, and no more.
TEST(SegmentTableTest, DirtyRecordsAreWrittenBackOldestFirst) {
  SegmentTable table = MakeTable({4 << 20});
  uint64_t sequence = 1;
  const auto change = [&](uint64_t journal) {
    const auto place = table.NextExtent(Stream::kStore, 256 << 10, &sequence);
    table.Use(*place, 256 << 10);
    table.AddLive(place->id, 1000, 1000);
    std::vector<SegmentChange> changes;
    table.Finish(changes);
    table.Commit(journal);
    return place->id;
  };
  EXPECT_EQ(table.oldest_dirty(), UINT64_MAX);
  const SegmentId first = change(10);
  change(11);  // seals the first, which stays dirty since 10
  EXPECT_EQ(table.oldest_dirty(), 10u);

  MetadataBatch none;
  table.WriteBack(10, none);
  EXPECT_TRUE(none.empty());
  MetadataBatch batch;
  table.WriteBack(11, batch);

  ASSERT_EQ(batch.changes().size(), 1u);
  EXPECT_EQ(batch.changes()[0].key, SegmentKey(first));
  EXPECT_EQ(*batch.changes()[0].value, EncodeSegment(first, table.Get(first)));
  EXPECT_EQ(table.oldest_dirty(), 11u);
  table.WrittenBack();
  EXPECT_EQ(table.oldest_dirty(), 11u);
  // Changed again, it is dirty again.
  table.AddLive(first, -10, -10);
  std::vector<SegmentChange> changes;
  table.Finish(changes);
  EXPECT_EQ(changes, (std::vector<SegmentChange>{{first, table.Get(first)}}));
  table.Commit(12);
  MetadataBatch rest;
  table.WriteBack(100, rest);
  EXPECT_EQ(rest.changes().size(), 2u);
}

TEST(SegmentTableTest, LoadRefusesWhatCannotBe) {
  SegmentTable table = MakeTable({4 << 20});

  EXPECT_FALSE(table.Load({1, 0}, {SegmentState::kSealed, 1, 4096, 0, 0}).ok());
  EXPECT_FALSE(table.Load({0, 999}, {SegmentState::kSealed, 1, 4096, 0, 0}).ok());
  EXPECT_FALSE(table.Load({0, 0}, {SegmentState::kSealed, 1, 512 << 10, 0, 0}).ok());
  EXPECT_TRUE(table.Load({0, 0}, {SegmentState::kOpenStore, 1, 4096, 0, 0}).ok());
  EXPECT_FALSE(table.Load({0, 1}, {SegmentState::kOpenStore, 2, 4096, 0, 0}).ok());
}

}  // namespace
}  // namespace ebb::storage
