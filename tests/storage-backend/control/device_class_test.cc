#include "storage-backend/control/device_class.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fmt/format.h"
#include "tests/storage-backend/control/scratch_dir.h"

namespace ebb::storage {
namespace {

// A sysfs in which the device that the scratch folder lies on is whatever the test wants.
class DeviceClassTest : public ::testing::Test {
 protected:
  // `disk` is the folder of the disk under devices/, `partition` one inside it or empty.
  void Make(const std::string& disk, const std::string& partition, int rotational) {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path(scratch_.path()) / "devices" / disk;
    fs::create_directories(folder / "queue");
    std::ofstream(folder / "queue" / "rotational") << rotational << "\n";
    if (!partition.empty()) fs::create_directories(folder / partition);
    struct stat about {};
    ASSERT_EQ(stat(scratch_.path().c_str(), &about), 0);
    fs::create_directories(fs::path(scratch_.path()) / "dev" / "block");
    fs::create_directory_symlink(
        partition.empty() ? folder : folder / partition,
        fs::path(scratch_.path()) / "dev" / "block" /
            fmt::format("{}:{}", major(about.st_dev), minor(about.st_dev)));
  }
  std::string Detect(const std::string& name = "") {
    return DetectDeviceClass(scratch_.path() + name, scratch_.path());
  }

  ScratchDir scratch_;
};

TEST_F(DeviceClassTest, ADiskRotates) {
  Make("sda", "", 1);
  EXPECT_EQ(Detect(), "disk");
}

TEST_F(DeviceClassTest, APartitionIsWhatItsDiskIs) {
  Make("sdb", "sdb1", 0);
  EXPECT_EQ(Detect(), "sata-ssd");
}

TEST_F(DeviceClassTest, NvmeIsKnownByItsName) {
  Make("nvme0n1", "nvme0n1p2", 0);
  EXPECT_EQ(Detect(), "nvme");
}

TEST_F(DeviceClassTest, AFolderThatIsYetToBeMadeLiesWhereItsParentDoes) {
  Make("sda", "", 1);
  EXPECT_EQ(Detect("/not/yet/there"), "disk");
}

TEST_F(DeviceClassTest, WhatAVolumeManagerSaysDoesNotCount) {
  Make("dm-0", "", 0);
  EXPECT_EQ(Detect(), "unknown");
}

TEST_F(DeviceClassTest, WithoutABlockDeviceItIsUnknown) {
  EXPECT_EQ(Detect(), "unknown");
  EXPECT_EQ(DetectDeviceClass("", scratch_.path()), "unknown");
}

}  // namespace
}  // namespace ebb::storage
