// What only RocksMetadata can get wrong: foreign, damaged, locked and unreachable directories.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {
namespace {

using ::testing::HasSubstr;

class RocksMetadataTest : public ::testing::Test {
 protected:
  RocksMetadataTest() : directory_(testing::TempDir() + "/rocks_metadata_XXXXXX") {
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }
  ~RocksMetadataTest() override { std::filesystem::remove_all(directory_); }

  void Fill(int rows) {
    absl::StatusOr<std::unique_ptr<MetadataStore>> store = OpenRocksMetadata(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < rows; ++i) {
      MetadataBatch batch;
      batch.Put(Table::kMap, std::to_string(i), std::string(100, 'v'));
      ASSERT_TRUE((*store)->Commit(batch, true).ok());
    }
  }

  std::string directory_;
};

TEST_F(RocksMetadataTest, RefusesADirectoryOfSomethingElse) {
  std::ofstream(directory_ + "/holiday.jpg") << "x";

  const auto store = OpenRocksMetadata(directory_);

  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("holiday.jpg"));
}

TEST_F(RocksMetadataTest, RefusesAPathThatIsAFile) {
  std::ofstream(directory_ + "/file") << "x";

  const auto store = OpenRocksMetadata(directory_ + "/file");

  ASSERT_FALSE(store.ok());
  EXPECT_THAT(std::string(store.status().message()), HasSubstr(directory_));
}

TEST_F(RocksMetadataTest, SaysThatItIsInUse) {
  const auto first = OpenRocksMetadata(directory_);
  ASSERT_TRUE(first.ok()) << first.status();

  const auto second = OpenRocksMetadata(directory_);

  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST_F(RocksMetadataTest, DamageIsDataLossInOneSentence) {
  Fill(3);
  std::ofstream(directory_ + "/CURRENT", std::ios::trunc) << "MANIFEST-999999\n";

  const auto store = OpenRocksMetadata(directory_);

  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("damaged"));
}

TEST_F(RocksMetadataTest, SurvivesADeathWhileTheDatabaseIsCreated) {
  std::ofstream(directory_ + "/LOCK") << "";
  std::ofstream(directory_ + "/IDENTITY") << "x";

  EXPECT_TRUE(OpenRocksMetadata(directory_).ok());
}

// Goal: a durable commit survives SIGKILL.
// Method: a child commits rows and reports each on a pipe until it is killed in mid-write.
// gtest runs a suite of this name first: ThreadSanitizer lets a forked child start threads only
// while its parent never had any.
using RocksMetadataDeathTest = RocksMetadataTest;

TEST_F(RocksMetadataDeathTest, DurableCommitsSurviveAKill) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = OpenRocksMetadata(directory_);
    if (!store.ok()) _exit(1);
    for (uint32_t i = 0;; ++i) {
      MetadataBatch batch;
      batch.Put(Table::kMap, std::to_string(i), "v");
      batch.Put(Table::kUnits, std::to_string(i), "v");
      if (!(*store)->Commit(batch, true).ok()) _exit(1);
      if (write(pipe_ends[1], &i, sizeof i) != sizeof i) _exit(1);
    }
  }
  close(pipe_ends[1]);
  uint32_t last = 0;
  while (last < 200) ASSERT_EQ(read(pipe_ends[0], &last, sizeof last), ssize_t{sizeof last});
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  uint32_t more = 0;
  while (read(pipe_ends[0], &more, sizeof more) == ssize_t{sizeof more}) last = more;
  close(pipe_ends[0]);

  auto store = OpenRocksMetadata(directory_);

  ASSERT_TRUE(store.ok()) << store.status();
  for (uint32_t i = 0; i <= last; ++i) {
    EXPECT_TRUE((*store)->Get(Table::kMap, std::to_string(i))->has_value()) << i;
    EXPECT_TRUE((*store)->Get(Table::kUnits, std::to_string(i))->has_value()) << i;
  }
}

}  // namespace
}  // namespace ebb::storage
