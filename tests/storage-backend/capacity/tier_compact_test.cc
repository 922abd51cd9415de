// Space: compaction, ENOSPC, and honest promises.
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

constexpr StoreOptions kRaw{};

// Random overwrites of a volume that fills `share` of what the tier promises, so that live blocks
// end up scattered over all segments.
Model Scatter(TierHarness& harness, double share, const StoreOptions& options, Content::Kind kind,
              uint64_t overwrites_per_block) {
  Model model;
  const auto blocks =
      static_cast<uint64_t>(share * static_cast<double>(harness.tier->FreeBytes() / kTestBlock));
  Rng rng(7);
  for (uint64_t first = 0; first < blocks; first += 128) {
    const Model batch = Blocks(first, std::min<uint64_t>(128, blocks - first), kind, first);
    EXPECT_TRUE(harness.Store(batch, options).ok());
    Apply(batch, model);
  }
  for (uint64_t round = 0; round < blocks * overwrites_per_block / 64; ++round) {
    Model batch;
    while (batch.size() < 64) batch[rng.Below(blocks)] = {kind, rng.Next() >> 8};
    const absl::Status status = harness.Store(batch, options);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) break;
    Apply(batch, model);
  }
  return model;
}

TEST(TierCompactTest, NothingToDoOnAnEmptyTier) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  EXPECT_FALSE(*harness.tier->CompactStep());
}

TEST(TierCompactTest, DeadSegmentsComeBackWithoutMoving) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const uint64_t empty = harness.tier->Usage().physical_bytes;
  ASSERT_TRUE(harness.Store(Blocks(0, 1000, Content::kRandom, 1), kRaw).ok());
  ASSERT_TRUE(harness.tier->Remove(0, 1000).ok());

  // All but the open segment.
  EXPECT_LE(harness.tier->Usage().physical_bytes, empty + (256 << 10));
  EXPECT_GT(harness.disks[0]->counts().discards, 0u);
}

TEST(TierCompactTest, MovesKeepEverythingAndGiveSpaceBack) {
  for (const StoreOptions& options :
       {kRaw, StoreOptions{.compression = Compression::kZstd1},
        StoreOptions{
            .compression = Compression::kLz4, .unit_bytes = 128 << 10, .dedup = Dedup::kOn}}) {
    TierHarness harness({8 << 20, 8 << 20});
    ASSERT_TRUE(harness.Open().ok());
    Model model = Blocks(0, 2400, Content::kText, 1);
    for (uint64_t block = 0; block < 2400; block += 3) model[block].kind = Content::kRandom;
    ASSERT_TRUE(harness.Store(model, options).ok());
    // Nine of ten blocks die, evenly spread.
    for (uint64_t block = 0; block < 2400; ++block) {
      if (block % 10 == 0) continue;
      ASSERT_TRUE(harness.tier->Remove(block, 1).ok());
      model.erase(block);
    }
    const uint64_t before = harness.tier->Usage().physical_bytes;

    bool moved = true;
    while (moved) {
      const absl::StatusOr<bool> step = harness.tier->CompactStep();
      ASSERT_TRUE(step.ok()) << step.status();
      moved = *step;
      ASSERT_EQ(harness.Faults(), "");
    }

    EXPECT_LT(harness.tier->Usage().physical_bytes, before / 2);
    EXPECT_EQ(harness.Compare(model, 2400), "");
    ASSERT_TRUE(harness.CrashAndOpen(3).ok());
    EXPECT_EQ(harness.Compare(model, 2400), "");
    EXPECT_EQ(harness.Faults(), "");
  }
}

// Goal: random overwrites for ever, at 90 % of the promised space, never meet ENOSPC.
TEST(TierCompactTest, StoreMakesRoomForItself) {
  for (const Content::Kind kind : {Content::kRandom, Content::kText}) {
    TierHarness harness({8 << 20});
    ASSERT_TRUE(harness.Open().ok());
    const StoreOptions options{.compression = Compression::kLz4};

    const Model model = Scatter(harness, 0.9, options, kind, 6);

    EXPECT_EQ(harness.Compare(model, model.rbegin()->first + 1), "");
    EXPECT_EQ(harness.Faults(), "");
  }
}

// Goal: whatever FreeBytes promises can be stored, in the worst way: unique, incompressible, in
// small batches, onto a scattered tier.
TEST(TierCompactTest, FreeBytesIsAPromise) {
  for (const std::vector<uint64_t>& devices :
       {std::vector<uint64_t>{6 << 20}, {8 << 20, 5 << 20}, {20 << 20}}) {
    TierHarness harness(devices);
    ASSERT_TRUE(harness.Open().ok());
    Model model = Scatter(harness, 0.6, {.compression = Compression::kZstd1}, Content::kText, 2);
    uint64_t next = model.rbegin()->first + 1;
    uint64_t seed = 1 << 30;

    while (true) {
      const uint64_t promised = harness.tier->FreeBytes() / kTestBlock;
      if (promised == 0) break;
      const Model batch = Blocks(next, std::min<uint64_t>(promised, 40), Content::kRandom, seed);
      const absl::Status status = harness.Store(batch, kRaw);
      ASSERT_TRUE(status.ok()) << status << " with " << promised << " blocks promised";
      Apply(batch, model);
      next += batch.size();
      seed += batch.size();
      ASSERT_GE(harness.tier->FreeBytes() / kTestBlock, promised - batch.size());
    }

    EXPECT_EQ(harness.Compare(model, next), "");
    EXPECT_EQ(harness.Faults(), "");
    // Full, and still every block can be overwritten.
    Rng rng(3);
    for (int round = 0; round < 30; ++round) {
      Model batch;
      while (batch.size() < 16) batch[rng.Below(next)] = {Content::kRandom, rng.Next() >> 8};
      Model merged = model;
      if (harness.tier->FreeBytes() == 0) {
        // Trimming first keeps within what is promised.
        for (const auto& [block, content] : batch) {
          ASSERT_TRUE(harness.tier->Remove(block, 1).ok());
        }
      }
      const absl::Status status = harness.Store(batch, kRaw);
      ASSERT_TRUE(status.ok()) << status;
      Apply(batch, model);
    }
    EXPECT_EQ(harness.Compare(model, next), "");
  }
}

TEST(TierCompactTest, FullIsResourceExhaustedAndChangesNothing) {
  TierHarness harness({4 << 20});
  ASSERT_TRUE(harness.Open().ok());
  Model model;
  uint64_t next = 0;
  absl::Status status;
  while (status.ok()) {
    const Model batch = Blocks(next, 64, Content::kRandom, next);
    status = harness.Store(batch, kRaw);
    if (!status.ok()) break;
    Apply(batch, model);
    next += 64;
    ASSERT_LT(next, 2000u);
  }

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  // Nearly all of the device is live data.
  EXPECT_GT(next * kTestBlock, (4u << 20) / 4 * 3);
  EXPECT_EQ(harness.Compare(model, next + 64), "");
  EXPECT_EQ(harness.Faults(), "");
  // Duplicates of what is there need no space and still go in.
  const Model zeroes = Blocks(5000, 4, Content::kZero, 0);
  (void)harness.Store(zeroes, {.dedup = Dedup::kOn});
  ASSERT_TRUE(harness.tier->Remove(0, next / 2).ok());
  EXPECT_TRUE(harness.Store(Blocks(0, next / 4, Content::kRandom, 1 << 20), kRaw).ok());
  EXPECT_EQ(harness.Faults(), "");
}

// Goal: damage neither spreads nor hides when its segment is compacted.
TEST(TierCompactTest, DamagedUnitsStayAndStayDamaged) {
  TierHarness harness({4 << 20});
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 500, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kRaw).ok());
  ASSERT_TRUE(harness.tier->Remove(100, 400).ok());
  for (uint64_t block = 100; block < 500; ++block) model.erase(block);
  for (uint64_t block = 0; block < 100; ++block) {
    if (block % 8 == 0) continue;
    ASSERT_TRUE(harness.tier->Remove(block, 1).ok());
    model.erase(block);
  }
  // The first extent: a header block, then block 0.
  harness.disks[0]->FlipBits(kSegmentAreaStart + kTestBlock + 77, 0x04);

  for (int step = 0; step < 100 && *harness.tier->CompactStep(); ++step) {
  }

  AlignedBuffer out(kTestBlock);
  EXPECT_EQ(harness.tier->Read(0, 1, out.data(), {}).code(), absl::StatusCode::kDataLoss);
  for (const auto& [block, content] : model) {
    if (block == 0) continue;
    EXPECT_TRUE(harness.tier->Read(block, 1, out.data(), {}).ok()) << block;
  }
  EXPECT_EQ(harness.Faults(), "");
}

}  // namespace
}  // namespace ebb::storage
