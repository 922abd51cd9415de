#include "engine/daemon/state_dir.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ebb::engine {
namespace {

using ::testing::HasSubstr;

TEST(StateDirTest, IsPrivateAndHasOneOwner) {
  const std::string root = ::testing::TempDir() + "ebb_state_" + std::to_string(getpid());
  const std::string path = root + "/new/state";

  auto first = StateDir::Open(path);

  ASSERT_TRUE(first.ok()) << first.status();
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  const auto second = StateDir::Open(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("in use by the daemon with process id " + std::to_string(getpid())));

  first->reset();
  EXPECT_TRUE(StateDir::Open(path).ok());
  EXPECT_FALSE(StateDir::Open("/proc/nothing/here").ok());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ebb::engine
