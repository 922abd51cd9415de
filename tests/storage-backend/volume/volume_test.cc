#include "storage-backend/volume/volume.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

class VolumeTest : public ::testing::Test {
 protected:
  VolumeTest() { EXPECT_TRUE(node_.Open().ok()); }

  uint64_t Version(uint64_t block) {
    AlignedBuffer data(kBlockBytes);
    EXPECT_TRUE(volume().Read(block * kBlockBytes, data.span()).ok());
    return VersionOf(block, data.span());
  }
  absl::Status Put(uint64_t block, uint64_t version) {
    return volume().Write(block * kBlockBytes, MakeBlock(block, version).span(), false);
  }
  Volume& volume() { return node_.volume(); }
  void Set(KnobId id, int64_t value) {
    Setting setting = volume().CurrentSetting();
    setting.Set(id, value);
    ASSERT_TRUE(volume().Apply(setting).ok());
  }
  void Drain() { ASSERT_TRUE(volume().Drain(nullptr).ok()); }

  ManualClock clock_;
  TestNode node_{TestNodeOptions{}, clock_};
};

TEST_F(VolumeTest, NewVolumeReadsAsZeroes) { EXPECT_EQ(Version(7), 0U); }

TEST_F(VolumeTest, ReadsBackFromTheLogTheCapacityTierAndMemory) {
  for (uint64_t block = 0; block < 100; ++block) ASSERT_TRUE(Put(block, 1).ok());
  for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);

  Set(KnobId::kNvmeReadShare, 0);
  Drain();
  for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);
  for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);

  const VolumeMetrics metrics = volume().Metrics();
  EXPECT_GT(metrics.read_blocks_cache, 0U);
  EXPECT_GT(metrics.read_blocks_dram, 90U);
  EXPECT_EQ(metrics.dirty_bytes, 0U);
  EXPECT_EQ(metrics.logical_bytes, 100U * kBlockBytes);
}

TEST_F(VolumeTest, MoreThanTheCacheHoldsCanBeWritten) {
  Rng rng(1);
  std::vector<uint64_t> model(1024, 0);
  for (uint64_t i = 1; i <= 5000; ++i) {
    const uint64_t block = rng.Below(1024);
    ASSERT_TRUE(Put(block, i).ok());
    model[block] = i;
  }

  for (uint64_t block = 0; block < 1024; ++block) ASSERT_EQ(Version(block), model[block]);
  EXPECT_GT(volume().Metrics().coalesced_blocks, 0U);
}

TEST_F(VolumeTest, UnalignedWritesMergeIntoTheirBlocks) {
  ASSERT_TRUE(Put(2, 5).ok());
  const std::vector<std::byte> patch(10'000, std::byte{0xab});

  ASSERT_TRUE(volume().Write(2 * kBlockBytes + 100, patch, false).ok());

  std::vector<std::byte> back(4 * kBlockBytes);
  ASSERT_TRUE(volume().Read(2 * kBlockBytes + 1, std::span(back).first(12'000)).ok());
  const AlignedBuffer before = MakeBlock(2, 5);
  EXPECT_EQ(std::memcmp(back.data(), before.data() + 1, 99), 0);
  EXPECT_EQ(std::memcmp(back.data() + 99, patch.data(), patch.size()), 0);
  for (size_t i = 99 + patch.size(); i < 12'000; ++i) ASSERT_EQ(back[i], std::byte{0});
}

TEST_F(VolumeTest, TrimAndZeroesReadAsZeroesThroughDestageAndRestart) {
  for (uint64_t block = 0; block < 64; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  ASSERT_TRUE(volume().Trim(10 * kBlockBytes, 20 * kBlockBytes, false).ok());
  ASSERT_TRUE(volume().WriteZeroes(40 * kBlockBytes + 10, 2 * kBlockBytes, false).ok());
  ASSERT_TRUE(Put(15, 2).ok());

  const auto check = [&] {
    EXPECT_EQ(Version(9), 1U);
    EXPECT_EQ(Version(10), 0U);
    EXPECT_EQ(Version(15), 2U);
    EXPECT_EQ(Version(29), 0U);
    EXPECT_EQ(Version(30), 1U);
    EXPECT_EQ(Version(41), 0U);
    std::vector<std::byte> edge(kBlockBytes);
    EXPECT_TRUE(volume().Read(40 * kBlockBytes, edge).ok());
    EXPECT_EQ(std::memcmp(edge.data(), MakeBlock(40, 1).data(), 10), 0);
    EXPECT_EQ(edge[10], std::byte{0});
  };
  check();
  ASSERT_TRUE(volume().Flush().ok());
  ASSERT_TRUE(node_.Open().ok());
  check();
  Drain();
  check();
  EXPECT_EQ(volume().Metrics().logical_bytes, (64U - 20 + 1 - 1) * kBlockBytes);
}

TEST_F(VolumeTest, WhatWasFlushedSurvivesAKill) {
  for (uint64_t block = 0; block < 50; ++block) ASSERT_TRUE(Put(block, 3).ok());
  ASSERT_TRUE(volume().Flush().ok());
  ASSERT_TRUE(volume().Write(60 * kBlockBytes, MakeBlock(60, 4).span(), /*fua=*/true).ok());
  ASSERT_TRUE(Put(61, 5).ok());  // in memory only

  ASSERT_TRUE(node_.Open().ok());

  for (uint64_t block = 0; block < 50; ++block) EXPECT_EQ(Version(block), 3U);
  EXPECT_EQ(Version(60), 4U);
  EXPECT_EQ(Version(61), 0U);
}

TEST_F(VolumeTest, CleanCloseKeepsEverything) {
  for (uint64_t block = 0; block < 50; ++block) ASSERT_TRUE(Put(block, 3).ok());
  ASSERT_TRUE(volume().Close().ok());

  ASSERT_TRUE(node_.Open().ok());

  for (uint64_t block = 0; block < 50; ++block) EXPECT_EQ(Version(block), 3U);
}

TEST_F(VolumeTest, BeyondTheEndIsRefused) {
  std::vector<std::byte> data(kBlockBytes);
  const uint64_t end = volume().volume_bytes();

  EXPECT_TRUE(absl::IsOutOfRange(volume().Read(end - 1, std::span(data).first(2))));
  EXPECT_TRUE(absl::IsOutOfRange(volume().Write(end, std::span(data).first(1), false)));
  EXPECT_TRUE(absl::IsOutOfRange(volume().Trim(~uint64_t{0}, 2, false)));
  EXPECT_TRUE(volume().Read(end, std::span(data).first(0)).ok());
  EXPECT_EQ(volume().Metrics().read.errors, 1U);
}

TEST_F(VolumeTest, NoSpaceIsSaidBeforeTheAcknowledgement) {
  node_.content().capacity_blocks = 40;
  uint64_t accepted = 0;
  absl::Status status;
  for (uint64_t block = 0; block < 100 && status.ok(); ++block) {
    status = Put(block, 1);
    if (status.ok()) ++accepted;
  }

  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(accepted, 40U);
  EXPECT_TRUE(Put(3, 2).ok()) << "a block that is dirty already needs no more room";
  Drain();
  EXPECT_EQ(Version(3), 2U);
  EXPECT_EQ(Version(39), 1U);
}

TEST_F(VolumeTest, DamagedDirtyBlockIsAnErrorNotGarbage) {
  ASSERT_TRUE(Put(1, 1).ok());
  ASSERT_TRUE(volume().Close().ok());
  node_.Kill();
  AlignedBuffer block(kBlockBytes);
  ASSERT_TRUE(node_.cache().Read(2 * kBlockBytes, block.span()).ok());
  block.data()[77] ^= std::byte{1};
  ASSERT_TRUE(node_.cache().Write(2 * kBlockBytes, block.span()).ok());

  ASSERT_TRUE(node_.Open().ok());

  EXPECT_TRUE(absl::IsDataLoss(volume().Read(kBlockBytes, block.span())));
  EXPECT_EQ(volume().Metrics().checksum_errors, 1U);
}

// A damaged block neither shows its older version nor keeps the log from draining.
TEST_F(VolumeTest, DamagedDirtyBlockIsLostUntilWrittenAgain) {
  ASSERT_TRUE(Put(1, 1).ok());
  ASSERT_TRUE(Put(2, 1).ok());
  Drain();
  ASSERT_TRUE(volume().Close().ok());
  ASSERT_TRUE(node_.Open().ok());
  ASSERT_TRUE(Put(1, 2).ok());
  ASSERT_TRUE(Put(2, 2).ok());
  ASSERT_TRUE(volume().Close().ok());
  node_.Kill();
  // The session's first segment is the second one; its group begins with its header.
  AlignedBuffer block(kBlockBytes);
  const uint64_t place = (1 + 16 + 1) * kBlockBytes;
  ASSERT_TRUE(node_.cache().Read(place, block.span()).ok());
  ASSERT_EQ(VersionOf(1, block.span()), 2U);
  block.data()[77] ^= std::byte{1};
  ASSERT_TRUE(node_.cache().Write(place, block.span()).ok());
  ASSERT_TRUE(node_.Open().ok());

  Drain();

  EXPECT_TRUE(absl::IsDataLoss(volume().Read(kBlockBytes, block.span())));
  EXPECT_EQ(Version(2), 2U);
  EXPECT_EQ(volume().Metrics().lost_blocks, 1U);
  ASSERT_TRUE(node_.Open().ok());
  EXPECT_TRUE(absl::IsDataLoss(volume().Read(kBlockBytes, block.span())));
  ASSERT_TRUE(Put(1, 3).ok());
  EXPECT_EQ(Version(1), 3U);
  Drain();
  EXPECT_EQ(volume().Metrics().lost_blocks, 0U);
  ASSERT_TRUE(node_.Open().ok());
  EXPECT_EQ(Version(1), 3U);
}

TEST_F(VolumeTest, ReadsFromTheCapacityTierLeaveACopyOnTheCacheDevice) {
  Set(KnobId::kNvmeReadShare, 0);
  for (uint64_t block = 0; block < 60; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  ASSERT_TRUE(volume().Trim(59 * kBlockBytes, kBlockBytes, false).ok());
  for (uint64_t block = 200; block < 240; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  Set(KnobId::kReadCacheBytes, 0);
  Set(KnobId::kNvmeReadShare, 60);
  const uint64_t before = volume().Metrics().read_blocks_capacity;

  for (uint64_t block = 0; block < 60; ++block) {
    ASSERT_EQ(Version(block), block == 59 ? 0U : 1U);
    ASSERT_TRUE(volume().RunBackgroundStep().ok());  // closes segments as clean
  }
  const uint64_t first = volume().Metrics().read_blocks_capacity - before;
  ASSERT_TRUE(volume().Flush().ok());
  ASSERT_TRUE(node_.Open().ok());
  Set(KnobId::kReadCacheBytes, 0);
  for (uint64_t block = 0; block < 60; ++block) ASSERT_EQ(Version(block), block == 59 ? 0U : 1U);

  EXPECT_GT(first, 30U);
  EXPECT_EQ(volume().Metrics().read_blocks_capacity, 0U);
}

TEST_F(VolumeTest, DamagedCleanCopyIsReadFromTheCapacityTier) {
  Set(KnobId::kNvmeReadShare, 50);
  for (uint64_t block = 0; block < 30; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  ASSERT_TRUE(volume().Close().ok());
  node_.Kill();
  AlignedBuffer garbage = MakeBlock(999, 999);
  ASSERT_TRUE(node_.cache().Write(2 * kBlockBytes, garbage.span()).ok());

  ASSERT_TRUE(node_.Open().ok());

  EXPECT_EQ(Version(0), 1U);
}

TEST_F(VolumeTest, MetricsAddUp) {
  Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(Put(rng.Below(1000), 1).ok());
    if (i % 50 == 0) {
      ASSERT_TRUE(volume().RunBackgroundStep().ok());
    }
    const VolumeMetrics metrics = volume().Metrics();
    ASSERT_EQ(metrics.dirty_bytes + metrics.clean_bytes + metrics.free_bytes,
              metrics.cache_space_bytes);
    ASSERT_LE(metrics.unique_bytes, metrics.logical_bytes);
    ASSERT_LE(metrics.dirty_bytes, metrics.cache_space_bytes);
  }
}

TEST_F(VolumeTest, IllegalSettingChangesNothing) {
  Setting setting = volume().CurrentSetting();
  setting.Set(KnobId::kReadaheadBlocks, 4);
  setting.Set(KnobId::kNvmeReadShare, 91);

  EXPECT_TRUE(absl::IsInvalidArgument(volume().Apply(setting)));
  EXPECT_EQ(volume().CurrentSetting(), node_.config().setting);
}

TEST_F(VolumeTest, ReadCacheCanBeTurnedOffAndOnAgain) {
  Set(KnobId::kReadAdmission, static_cast<int64_t>(ReadAdmission::kAlways));
  for (uint64_t block = 0; block < 20; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Set(KnobId::kNvmeReadShare, 0);
  Drain();
  Set(KnobId::kReadCacheBytes, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Version(3), 1U);
  EXPECT_EQ(volume().Metrics().read_blocks_dram, 0U);
  EXPECT_EQ(volume().Metrics().read_cache_used_bytes, 0U);

  Set(KnobId::kReadCacheBytes, 1 << 20);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Version(3), 1U);

  EXPECT_EQ(volume().Metrics().read_blocks_dram, 2U);
}

TEST_F(VolumeTest, SequentialReadsAreFetchedAhead) {
  Set(KnobId::kNvmeReadShare, 0);
  for (uint64_t block = 0; block < 200; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  Set(KnobId::kReadaheadBlocks, 16);

  for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);

  EXPECT_GT(volume().Metrics().readahead_blocks, 60U);
  EXPECT_LT(volume().Metrics().read_blocks_capacity, 20U);
}

TEST_F(VolumeTest, LongStreamsBypassTheReadCache) {
  Set(KnobId::kNvmeReadShare, 0);
  for (uint64_t block = 0; block < 500; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  Set(KnobId::kSequentialBypassBytes, 64 * 4096);

  for (uint64_t block = 0; block < 500; ++block) ASSERT_EQ(Version(block), 1U);

  EXPECT_LT(volume().Metrics().read_cache_used_bytes, 100U * kBlockBytes);
}

TEST_F(VolumeTest, ReadsAsLongAsTheReadaheadReadNothingAhead) {
  Set(KnobId::kNvmeReadShare, 0);
  Set(KnobId::kReadaheadBlocks, 8);
  for (uint64_t block = 0; block < 200; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  const auto read_all = [&](uint64_t blocks) {
    AlignedBuffer data(blocks * kBlockBytes);
    for (uint64_t block = 0; block < 96; block += blocks) {
      ASSERT_TRUE(volume().Read(block * kBlockBytes, data.span()).ok());
    }
  };

  read_all(8);
  EXPECT_EQ(volume().Metrics().readahead_blocks, 0U);
  read_all(4);
  EXPECT_GT(volume().Metrics().readahead_blocks, 0U);
}

TEST_F(VolumeTest, SecondHitAdmissionKeepsOneTimeReadsOut) {
  Set(KnobId::kNvmeReadShare, 0);
  Set(KnobId::kReadaheadBlocks, 0);
  Set(KnobId::kReadAdmission, 1);
  for (uint64_t block = 0; block < 100; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();

  for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);
  EXPECT_EQ(volume().Metrics().read_cache_used_bytes, 0U);
  Set(KnobId::kDestageWatermark, 60);  // another knob: what was seen is not forgotten
  for (uint64_t block = 0; block < 10; ++block) ASSERT_EQ(Version(block), 1U);
  EXPECT_EQ(volume().Metrics().read_cache_used_bytes, 10U * kBlockBytes);
}

TEST_F(VolumeTest, PolicyChangeKeepsWhatIsCached) {
  Set(KnobId::kReadAdmission, static_cast<int64_t>(ReadAdmission::kAlways));
  Set(KnobId::kNvmeReadShare, 0);
  for (uint64_t block = 0; block < 100; ++block) ASSERT_TRUE(Put(block, 1).ok());
  Drain();
  for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);
  const uint64_t misses = volume().Metrics().read_blocks_capacity;

  for (const int64_t policy : {0, 1, 0}) {
    Set(KnobId::kReadPolicy, policy);
    for (uint64_t block = 0; block < 100; ++block) ASSERT_EQ(Version(block), 1U);
  }

  EXPECT_EQ(volume().Metrics().read_blocks_capacity, misses);
}

TEST_F(VolumeTest, ReadShareKeepsCleanCopiesInTheCache) {
  const auto from_capacity = [&](int64_t share) {
    EXPECT_TRUE(node_.Open().ok());
    Set(KnobId::kNvmeReadShare, share);
    Set(KnobId::kReadCacheBytes, 0);
    for (uint64_t block = 0; block < 150; ++block) EXPECT_TRUE(Put(block, 1).ok());
    Drain();
    for (uint64_t block = 0; block < 150; ++block) EXPECT_EQ(Version(block), 1U);
    return volume().Metrics().read_blocks_capacity;
  };

  EXPECT_EQ(from_capacity(80), 0U);
  EXPECT_GT(from_capacity(0), 100U);
}

}  // namespace
}  // namespace ebb::storage
