#include "env/twin/log_model.h"

#include <map>
#include <memory>

#include "base/rng.h"
#include "base/units.h"
#include "gtest/gtest.h"

namespace ebb::twin {
namespace {

constexpr LogModel::Geometry kGeometry{.segment_blocks = 256, .segment_count = 16};
// Of a segment: the rest are the groups' headers.
constexpr uint32_t kDataBlocks =
    256 - (256 + storage::kGroupBlocksMax) / (storage::kGroupBlocksMax + 1);

class LogModelTest : public ::testing::Test {
 protected:
  LogModelTest()
      : table_(1 << 16),
        device_(*storage::MakeServiceModel("nvme", {.device_bytes = 64 * kMiB})),
        log_(kGeometry, table_, *device_) {
    log_.SetInstant(true);
  }
  bool Write(uint32_t block) { return log_.Append({.block = block}, /*dirty=*/true, now_ns_); }
  void Flush() { log_.EndFlush(log_.BeginFlush(now_ns_)); }
  std::vector<LogModel::DirtyBlock> Collect(size_t max) {
    std::vector<LogModel::DirtyBlock> blocks;
    log_.CollectDirty(max, 0, blocks);
    return blocks;
  }

  BlockTable table_;
  std::unique_ptr<storage::ServiceModel> device_;
  LogModel log_;
  uint64_t now_ns_ = 1;
};

TEST_F(LogModelTest, ABlockIsFoundWhereItWasAppended) {
  ASSERT_TRUE(Write(7));
  ASSERT_TRUE(Write(9));

  EXPECT_EQ(table_[9].log, table_[7].log + 1);
  EXPECT_EQ(log_.At(table_[7].log).block, 7u);
  EXPECT_TRUE(log_.InBuffer(table_[7].log));
  EXPECT_EQ(log_.dirty_blocks(), 2u);
}

TEST_F(LogModelTest, AnOverwriteCoalesces) {
  Write(7);
  const uint32_t before = table_[7].log;
  Write(7);

  EXPECT_NE(table_[7].log, before);
  EXPECT_EQ(log_.dirty_blocks(), 1u);
  EXPECT_EQ(log_.coalesced_blocks(), 1u);
}

TEST_F(LogModelTest, OnlyWhatIsDurableIsCollected) {
  for (uint32_t block = 0; block < 100; ++block) Write(block);
  EXPECT_TRUE(Collect(1000).empty());

  Flush();
  Write(200);

  EXPECT_EQ(Collect(1000).size(), 100u);
  EXPECT_EQ(Collect(10).size(), 10u);
}

TEST_F(LogModelTest, TakesNoMoreThanItsWriteSpace) {
  uint32_t taken = 0;
  while (Write(taken)) ++taken;

  // One segment of 16 is kept free.
  EXPECT_EQ(taken, 15u * kDataBlocks);
  EXPECT_GT(log_.fill(), 0.96);  // brought up to date with each group
  EXPECT_FALSE(log_.CanAppend());
}

TEST_F(LogModelTest, CleanSegmentsComeBackInTheirOrder) {
  uint32_t next = 0;
  while (Write(next)) ++next;
  Flush();
  const auto blocks = Collect(kDataBlocks);
  for (const auto& block : blocks) log_.MarkClean(block);

  const LogModel::Released released = log_.ReleaseClean();

  EXPECT_EQ(released.segments, 1u);
  EXPECT_EQ(table_[0].log, 0u);
  EXPECT_NE(table_[kDataBlocks].log, 0u);
  EXPECT_TRUE(Write(60'000));
}

TEST_F(LogModelTest, TheReadShareKeepsCleanSegments) {
  log_.SetReadShare(0.5);
  uint32_t next = 0;
  while (Write(next)) ++next;
  EXPECT_EQ(next, 8u * kDataBlocks);
  Flush();
  for (const auto& block : Collect(10'000)) log_.MarkClean(block);

  const LogModel::Released released = log_.ReleaseClean();

  EXPECT_TRUE(released.advanced);
  EXPECT_EQ(released.segments, 0u);
  EXPECT_NE(table_[0].log, 0u);
  EXPECT_TRUE(Write(60'000));
}

TEST_F(LogModelTest, ACopyNeverStandsInFrontOfSomethingNewer) {
  Write(7);
  const uint32_t place = table_[7].log;

  EXPECT_TRUE(log_.Append({.block = 7}, /*dirty=*/false, now_ns_));
  EXPECT_TRUE(log_.Append({.block = 8}, /*dirty=*/false, now_ns_));

  EXPECT_EQ(table_[7].log, place);
  EXPECT_NE(table_[8].log, 0u);
  EXPECT_EQ(log_.dirty_blocks(), 1u);
}

TEST_F(LogModelTest, ATrimKillsAndHoldsItsSegment) {
  for (uint32_t block = 0; block < kDataBlocks; ++block) Write(block);
  ASSERT_TRUE(log_.Trim(0, kDataBlocks, now_ns_));
  EXPECT_EQ(log_.dirty_blocks(), 0u);
  EXPECT_EQ(table_[3].log, 0u);
  EXPECT_TRUE(IsZeroed(table_[3]));
  EXPECT_TRUE(log_.TakeRanges().empty()) << "not durable yet";

  Flush();

  ASSERT_EQ(log_.TakeRanges().size(), 1u);
}

TEST_F(LogModelTest, AGroupWaitsForTheDeviceWhenAllBuffersAreBusy) {
  log_.SetInstant(false);
  // Far more at once than 16 groups of a quarter of a MiB, at 2 GB/s.
  for (uint32_t block = 0; block < 3'000; ++block) ASSERT_TRUE(Write(block));

  EXPECT_GT(now_ns_, 1'000'000u);
}

// Property: against a plain model, over random writes, trims, destage and release.
TEST_F(LogModelTest, AfterABurstTheLastGroupsServeReadsForLonger) {
  // Two buffers take turns while the device follows; after a burst all sixteen do.
  const auto readable = [&] {
    uint32_t count = 0;
    for (uint32_t block = 0; block < 2'000; ++block) {
      count += table_[block].log != 0 && log_.InBuffer(table_[block].log) ? 1 : 0;
    }
    return count;
  };
  for (uint32_t block = 0; block < 2'000; ++block) Write(block);
  EXPECT_LE(readable(), 2 * storage::kGroupBlocksMax);

  log_.UseAllBuffers();
  for (uint32_t block = 0; block < 2'000; ++block) Write(block);

  EXPECT_GT(readable(), (storage::kGroupBuffers - 2) * storage::kGroupBlocksMax);
}

TEST_F(LogModelTest, CountsTheGroupsThatAWriteFilled) {
  for (uint32_t block = 0; block < storage::kGroupBlocksMax - 1; ++block) Write(block);
  EXPECT_EQ(log_.full_groups(), 0u);
  Write(900);
  EXPECT_EQ(log_.full_groups(), 1u);
  Write(901);
  Flush();  // closes one that is not full
  EXPECT_EQ(log_.full_groups(), 1u);
}

TEST_F(LogModelTest, AgreesWithAModelOverRandomSteps) {
  Rng rng(42);
  std::map<uint32_t, bool> model;  // block -> dirty
  for (int step = 0; step < 60'000; ++step) {
    const auto block = static_cast<uint32_t>(rng.Below(3'000));
    if (rng.Chance(0.02)) {
      if (!log_.Trim(block, 1, now_ns_)) continue;
      model.erase(block);
    } else if (Write(block)) {
      model[block] = true;
    }
    if (log_.fill() < 0.7) continue;
    Flush();
    log_.TakeRanges();
    for (const auto& dirty : Collect(500)) {
      ASSERT_TRUE(log_.MarkClean(dirty));
      model[dirty.block] = false;
    }
    log_.ReleaseClean();
  }
  uint64_t dirty_blocks = 0;
  for (const auto& [block, dirty] : model) {
    dirty_blocks += dirty ? 1 : 0;
    if (!dirty) continue;
    ASSERT_NE(table_[block].log, 0u) << block;
    EXPECT_EQ(log_.At(table_[block].log).block, block);
    EXPECT_TRUE(log_.IsDirty(table_[block].log));
  }
  EXPECT_EQ(log_.dirty_blocks(), dirty_blocks);
}

TEST(LogModelGeometryTest, IsTheNodesAndASamplesIsAsManySegments) {
  const auto whole = LogModel::ChooseGeometry(kGiB, 1);
  const auto tenth = LogModel::ChooseGeometry(kGiB / 10, 10);

  EXPECT_EQ(whole.segment_blocks, 4096u);
  EXPECT_EQ(whole.segment_count, 63u);
  EXPECT_NEAR(tenth.segment_blocks, 410, 2);
  EXPECT_NEAR(tenth.segment_count, 63, 1);
}

}  // namespace
}  // namespace ebb::twin
