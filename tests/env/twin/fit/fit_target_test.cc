// Goal: measuring a device never destroys what somebody has on it.
#include "env/twin/fit/fit_target.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/device/superblock.h"
#include "storage-backend/device/uring_device.h"
#include "tests/support/program.h"

namespace ebb::twin {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 16 * kMiB;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class FitTargetTest : public ::testing::Test {
 protected:
  std::string MakeFile() {
    const std::string path = scratch_.path() + "/device.img";
    std::ofstream file(path, std::ios::binary);
    for (uint64_t i = 0; i < kBytes / 8; ++i) {
      file.write(reinterpret_cast<const char*>(&i), sizeof i);
    }
    return path;
  }
  const testing::ScratchFolder scratch_;
  const ProbeOptions quick_{.quick = true, .seconds_max = 0.05};
};

TEST_F(FitTargetTest, AnExistingDeviceIsOnlyRead) {
  const std::string path = MakeFile();
  const std::string before = ReadAll(path);

  const auto fitted = MeasureAndFit({.path = path}, quick_);

  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_FALSE(fitted->wrote);
  EXPECT_EQ(ReadAll(path), before);
}

TEST_F(FitTargetTest, AStoreIsNotOverwrittenEvenWhenAskedTo) {
  const std::string path = MakeFile();
  const std::string before = ReadAll(path);

  const auto fitted = MeasureAndFit({.path = path, .overwrite = true}, quick_);

  EXPECT_EQ(fitted.status().code(), absl::StatusCode::kFailedPrecondition) << fitted.status();
  EXPECT_THAT(std::string(fitted.status().message()), HasSubstr("nothing was written"));
  EXPECT_EQ(ReadAll(path), before);
}

TEST_F(FitTargetTest, ABlankDeviceIsWrittenToOnlyWhenAskedTo) {
  const std::string path = scratch_.path() + "/blank.img";
  ASSERT_TRUE(storage::CreateDeviceFile(path, kBytes).ok());
  const std::string before = ReadAll(path);

  const auto read = MeasureAndFit({.path = path}, quick_);
  EXPECT_TRUE(read.ok() && !read->wrote) << read.status();
  EXPECT_EQ(ReadAll(path), before);

  const auto written = MeasureAndFit({.path = path, .overwrite = true}, quick_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_TRUE(written->wrote);
  EXPECT_NE(ReadAll(path), before);
}

TEST_F(FitTargetTest, AFileMadeForItIsGoneAfterwards) {
  const std::string path = scratch_.path() + "/new.img";

  const auto fitted = MeasureAndFit({.path = path, .create_bytes = kBytes}, quick_);

  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_TRUE(fitted->wrote);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(FitTargetTest, RefusesWithWhatToDo) {
  const std::string path = MakeFile();
  EXPECT_THAT(std::string(MeasureAndFit({.path = path + "x"}, quick_).status().message()),
              HasSubstr("--create"));
  EXPECT_EQ(MeasureAndFit({.path = path, .create_bytes = kBytes}, quick_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MeasureAndFit({}, quick_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MeasureAndFit({.shape = "floppy"}, quick_).status().message()),
              HasSubstr("floppy"));
}

}  // namespace
}  // namespace ebb::twin
