#include "storage-backend/volume/scrubber.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kBlocks = 64;

// A node without threads on real tiers: background steps drive everything, by hand.
class ScrubberTest : public ::testing::Test {
 protected:
  ScrubberTest()
      : node_({.volume_bytes = 1024 * kBlockBytes,
               .cache_bytes = (2 + 16 * 16) * kBlockBytes,
               .segment_bytes = 16 * kBlockBytes,
               .capacity_bytes = 16 << 20,
               .fake_tier = false,
               .background_threads = false,
               .read_cache_bytes = 1 << 20},
              clock_) {
    EXPECT_TRUE(node_.Open().ok());
  }

  Volume& volume() { return node_.volume(); }
  void Put(uint64_t first, uint64_t count) {
    for (uint64_t block = first; block < first + count; ++block) {
      ASSERT_TRUE(
          volume().Write(block * kBlockBytes, MakeBlock(block, 1).span(), /*fua=*/false).ok());
    }
    ASSERT_TRUE(volume().Flush().ok());
  }
  // So that everything is on the devices and nothing in the log's buffers.
  void Reopen() {
    ASSERT_TRUE(volume().Close().ok());
    ASSERT_TRUE(node_.Open().ok());
  }
  void SetRate(int64_t mibps) {
    Setting setting = volume().CurrentSetting();
    setting.Set(KnobId::kScrubMibps, mibps);
    ASSERT_TRUE(volume().Apply(setting).ok());
  }
  void RunFor(uint64_t ns, uint64_t step_ns = 10 * kNsPerMs) {
    for (uint64_t done = 0; done < ns; done += step_ns) {
      clock_.AdvanceNs(step_ns);
      ASSERT_TRUE(volume().RunBackgroundStep().ok());
    }
  }
  // Runs until one more pass is complete.
  void RunAPass() {
    const uint64_t passes = volume().Metrics().scrub_passes;
    for (int i = 0; i < 10'000 && volume().Metrics().scrub_passes == passes; ++i) {
      RunFor(kNsPerS, kNsPerS);
    }
    ASSERT_EQ(volume().Metrics().scrub_passes, passes + 1);
  }
  // Flips a bit where `needle` (a block's content) lies on the device.
  static void FlipOneBit(MemDevice& device, const AlignedBuffer& needle) {
    AlignedBuffer block(kBlockBytes);
    for (uint64_t offset = kBlockBytes; offset + kBlockBytes < device.size_bytes();
         offset += kBlockBytes) {
      ASSERT_TRUE(device.Read(offset, block.span()).ok());
      if (std::memcmp(block.data(), needle.data(), kBlockBytes) != 0) continue;
      block.data()[1234] ^= std::byte{4};
      ASSERT_TRUE(device.Write(offset, block.span()).ok());
      return;
    }
    FAIL() << "the block is not on the device";
  }

  ManualClock clock_;
  TestNode node_;
};

TEST_F(ScrubberTest, ReadsEveryLiveBlockOnBothTiers) {
  Put(0, kBlocks);
  ASSERT_TRUE(volume().Drain(nullptr).ok());
  Reopen();
  SetRate(10);

  RunAPass();

  // Drained, yet still in the log as clean copies: each is read in both places.
  const VolumeMetrics metrics = volume().Metrics();
  EXPECT_EQ(metrics.scrub_scanned_bytes, 2 * kBlocks * kBlockBytes);
  EXPECT_EQ(metrics.scrub_damaged_blocks, 0U);
  EXPECT_TRUE(volume().CheckHealth().empty());
}

TEST_F(ScrubberTest, FindsAFlippedBitInTheLog) {
  Put(0, kBlocks);
  Reopen();
  FlipOneBit(node_.cache(), MakeBlock(7, 1));
  // The scrubber, not the destager, is to find it: nothing runs but it.
  SetRate(10);
  clock_.AdvanceNs(kNsPerS);
  ASSERT_TRUE(volume().RunBackgroundStep().ok());

  const auto notices = volume().CheckHealth();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].kind, VolumeNotice::Kind::kDamage);
  EXPECT_THAT(notices[0].text, AllOf(HasSubstr("block 7 is damaged on the cache device"),
                                     HasSubstr("the only copy")));
  EXPECT_EQ(volume().Metrics().scrub_damaged_blocks, 1U);
}

TEST_F(ScrubberTest, FindsAFlippedBitInTheCapacityTierBehindACleanCopy) {
  Put(0, kBlocks);
  ASSERT_TRUE(volume().Drain(nullptr).ok());
  Setting setting = volume().CurrentSetting();
  setting.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
  ASSERT_TRUE(volume().Apply(setting).ok());
  Put(100, kBlocks);  // stored raw, so that a test can find it
  ASSERT_TRUE(volume().Drain(nullptr).ok());
  FlipOneBit(node_.capacity(), MakeBlock(130, 1));
  SetRate(10);

  RunAPass();

  const auto notices = volume().CheckHealth();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_THAT(notices[0].text, HasSubstr("block 130"));
  EXPECT_EQ(volume().Metrics().scrub_damaged_blocks, 1U);
  // A client still gets the clean copy.
  std::vector<std::byte> data(kBlockBytes);
  ASSERT_TRUE(volume().Read(130 * kBlockBytes, data).ok());
  EXPECT_EQ(VersionOf(130, data), 1U);
}

TEST_F(ScrubberTest, ObeysItsRateAndStopsAtZero) {
  Put(0, 1000);
  ASSERT_TRUE(volume().Drain(nullptr).ok());

  RunFor(10 * kNsPerS);
  EXPECT_EQ(volume().Metrics().scrub_scanned_bytes, 0U) << "it is off by default";

  SetRate(2);
  const uint64_t before = volume().Metrics().scrub_scanned_bytes;
  RunFor(20 * kNsPerS);
  const uint64_t scanned = volume().Metrics().scrub_scanned_bytes - before;
  // 20 s at 2 MiB/s, but for the granularity of a piece at each end and of our steps.
  EXPECT_LE(scanned, 42 * kMiB);
  EXPECT_GE(scanned, 34 * kMiB);

  SetRate(8);
  const uint64_t slower = volume().Metrics().scrub_scanned_bytes;
  RunFor(20 * kNsPerS);
  EXPECT_GE(volume().Metrics().scrub_scanned_bytes - slower, 3 * scanned);

  SetRate(0);
  const uint64_t stopped = volume().Metrics().scrub_scanned_bytes;
  RunFor(5 * kNsPerS);
  EXPECT_EQ(volume().Metrics().scrub_scanned_bytes, stopped);
}

TEST_F(ScrubberTest, LeavesTheCachesAsTheyAre) {
  Put(0, 1000);
  ASSERT_TRUE(volume().Drain(nullptr).ok());
  const VolumeMetrics before = volume().Metrics();
  SetRate(100);

  RunAPass();

  const VolumeMetrics after = volume().Metrics();
  EXPECT_GT(after.scrub_scanned_bytes, 0U);
  EXPECT_EQ(after.read_cache_used_bytes, before.read_cache_used_bytes);
  EXPECT_EQ(after.cache_copied_bytes, before.cache_copied_bytes);
  EXPECT_EQ(after.read.ops, before.read.ops);
}

TEST_F(ScrubberTest, AnEmptyVolumeIsNotSpunThrough) {
  SetRate(1);
  RunFor(kNsPerS);
  // 4 pieces a pass, 16 empty ones a second at 1 MiB/s.
  EXPECT_LE(volume().Metrics().scrub_passes, 5U);
  EXPECT_GE(volume().Metrics().scrub_passes, 3U);
}

TEST_F(ScrubberTest, RunsOnAThreadOfItsOwn) {
  TestNode live({.volume_bytes = 1024 * kBlockBytes,
                 .cache_bytes = (2 + 16 * 16) * kBlockBytes,
                 .segment_bytes = 16 * kBlockBytes,
                 .capacity_bytes = 16 << 20,
                 .fake_tier = false,
                 .background_threads = true},
                RealClock());
  ASSERT_TRUE(live.Open().ok());
  ASSERT_TRUE(live.volume().Write(0, MakeBlock(0, 1).span(), /*fua=*/true).ok());
  Setting setting = live.volume().CurrentSetting();
  setting.Set(KnobId::kScrubMibps, 1024);
  ASSERT_TRUE(live.volume().Apply(setting).ok());

  const uint64_t give_up_ns = RealClock().MonotonicNs() + 60 * kNsPerS;
  while (live.volume().Metrics().scrub_passes < 2) {
    ASSERT_LT(RealClock().MonotonicNs(), give_up_ns);
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + kNsPerMs);
  }
  EXPECT_EQ(live.volume().Metrics().scrub_damaged_blocks, 0U);
  EXPECT_TRUE(live.volume().Close().ok());
}

}  // namespace
}  // namespace ebb::storage
