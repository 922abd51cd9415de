// A destage that ought to run and cannot is told once, with the reason, and clears itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "tests/storage-backend/volume/striped_fixture.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class StuckDestageTest : public ::testing::Test {
 protected:
  // Dirties nearly all of the write space of the only group.
  void Fill() {
    ASSERT_TRUE(node_.Open().ok());
    for (uint64_t block = 0; block < 40; ++block) {
      ASSERT_TRUE(
          node_.volume().Write(block * kBlockBytes, MakeBlock(block, 1).span(), false).ok());
    }
    ASSERT_TRUE(node_.volume().Flush().ok());
  }
  void BreakCapacity() {
    for (int i = 1; i <= 1000; ++i) {
      node_.group(0).capacity[0]->FailNth(Io::Kind::kWrite, static_cast<uint64_t>(i),
                                          FaultyDisk::Fault::kNoSpace);
    }
  }

  StripedTestNode node_{1, 4};
};

TEST_F(StuckDestageTest, IsToldOnceAndClearsItself) {
  Fill();
  BreakCapacity();
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kDestageWatermark, 5);
  ASSERT_TRUE(node_.volume().Apply(setting).ok());

  size_t of_the_device = 0;
  for (int second = 0; second < 29; ++second) {
    EXPECT_FALSE(node_.volume().RunBackgroundStep().ok());
    for (const VolumeNotice& notice : node_.volume().CheckHealth()) {
      EXPECT_EQ(notice.kind, VolumeNotice::Kind::kDevice) << "after " << second << " s";
      ++of_the_device;
    }
    node_.clock().AdvanceNs(kNsPerS);
  }
  EXPECT_EQ(of_the_device, 1U);
  node_.clock().AdvanceNs(2 * kNsPerS);
  const auto notices = node_.volume().CheckHealth();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].kind, VolumeNotice::Kind::kStuck);
  EXPECT_THAT(notices[0].text, AllOf(HasSubstr("destage is stuck"), HasSubstr("160 KiB dirty")));
  EXPECT_TRUE(node_.volume().Metrics().destage_stuck);
  node_.clock().AdvanceNs(60 * kNsPerS);
  EXPECT_TRUE(node_.volume().CheckHealth().empty());

  node_.Reboot(1);  // the disk is replaced by one that works
  ASSERT_TRUE(node_.Open().ok());
  EXPECT_FALSE(node_.volume().Metrics().destage_stuck);
}

TEST_F(StuckDestageTest, AFewFailuresAreNotStuck) {
  Fill();
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kDestageWatermark, 5);
  setting.Set(KnobId::kDestageBatchBytes, 256 * 1024);
  ASSERT_TRUE(node_.volume().Apply(setting).ok());
  node_.group(0).capacity[0]->FailNth(Io::Kind::kWrite, 1, FaultyDisk::Fault::kNoSpace);
  EXPECT_TRUE(node_.volume().CheckHealth().empty());
  EXPECT_FALSE(node_.volume().RunBackgroundStep().ok());
  node_.clock().AdvanceNs(20 * kNsPerS);
  EXPECT_TRUE(node_.volume().CheckHealth().empty());

  EXPECT_TRUE(node_.volume().RunBackgroundStep().ok());
  node_.clock().AdvanceNs(20 * kNsPerS);

  EXPECT_TRUE(node_.volume().CheckHealth().empty());
}

TEST_F(StuckDestageTest, DirtyBlocksBelowTheWatermarkMayStay) {
  Fill();
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kDestageWatermark, 90);
  setting.Set(KnobId::kNvmeReadShare, 0);
  ASSERT_TRUE(node_.volume().Apply(setting).ok());
  EXPECT_TRUE(node_.volume().CheckHealth().empty());

  node_.clock().AdvanceNs(1000 * kNsPerS);

  EXPECT_TRUE(node_.volume().CheckHealth().empty());
}

}  // namespace
}  // namespace ebb::storage
