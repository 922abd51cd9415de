#include "experiments/support/scratch.h"

#include <filesystem>

#include <sys/stat.h>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::experiments {
namespace {

TEST(ScratchTest, MoreThanTheMachineHasGoesToDisk) {
  EXPECT_EQ(ChooseScratchParent(uint64_t{1} << 50), "/tmp");
}

TEST(ScratchTest, WhatIsChosenTakesDirectIo) {
  EXPECT_TRUE(TakesDirectIo(ChooseScratchParent(kMiB)));
  EXPECT_FALSE(TakesDirectIo("/nonexistent"));
}

TEST(ScratchTest, TheFolderIsNewAndPrivate) {
  const absl::StatusOr<std::string> a = MakeScratchFolder("/tmp");
  const absl::StatusOr<std::string> b = MakeScratchFolder("/tmp");

  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, *b);
  struct stat status = {};
  ASSERT_EQ(stat(a->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  std::filesystem::remove(*a);
  std::filesystem::remove(*b);
  EXPECT_THAT(std::string(MakeScratchFolder("/nonexistent").status().message()),
              ::testing::HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace ebb::experiments
