#include "experiments/support/child_process.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::experiments {
namespace {

using ::testing::HasSubstr;

class ChildProcessTest : public ::testing::Test {
 protected:
  ChildProcessTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~ChildProcessTest() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<ChildProcess> Start(std::vector<std::string> command) {
    auto process = ChildProcess::Start(std::move(command), folder_ + "/log");
    EXPECT_TRUE(process.ok()) << process.status();
    return std::move(*process);
  }

  std::string folder_ = "/tmp/ebb-experiments-test-XXXXXX";
};

TEST_F(ChildProcessTest, WaitsForTheEnd) { EXPECT_TRUE(Start({"true"})->Wait(10'000).ok()); }

TEST_F(ChildProcessTest, AFailureComesWithWhatItSaid) {
  Start({"sh", "-c", "echo of an earlier run"})->Wait(10'000).IgnoreError();

  const absl::Status status = Start({"sh", "-c", "echo no disk; exit 3"})->Wait(10'000);

  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "sh ended with exit code 3: no disk");
}

TEST_F(ChildProcessTest, AMissingProgramIsAFailure) {
  const absl::Status status = Start({"/nonexistent/program"})->Wait(10'000);

  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be started"));
}

TEST_F(ChildProcessTest, StopEndsTheWholeGroup) {
  std::unique_ptr<ChildProcess> process = Start({"sh", "-c", "sleep 1000 & sleep 1000"});
  const pid_t pid = process->pid();
  EXPECT_TRUE(process->IsRunning());
  EXPECT_EQ(process->Wait(1).code(), absl::StatusCode::kDeadlineExceeded);

  process->Stop();

  EXPECT_FALSE(process->IsRunning());
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(ChildProcessTest, StopKillsWhatDoesNotListen) {
  std::unique_ptr<ChildProcess> process =
      Start({"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"});
  while (process->LogTail() != "ready") process->Wait(10).IgnoreError();

  process->Stop(/*grace_ms=*/50);

  EXPECT_FALSE(process->IsRunning());
}

TEST_F(ChildProcessTest, WaitEndsWhenAskedTo) {
  std::unique_ptr<ChildProcess> process = Start({"sleep", "1000"});
  const std::atomic<bool> stop = true;

  EXPECT_EQ(process->Wait(100'000, &stop).code(), absl::StatusCode::kCancelled);
}

TEST_F(ChildProcessTest, RunAndReadGivesTheOutputAlone) {
  const auto text = RunAndRead({"sh", "-c", "echo data; echo note >&2"}, folder_, 10'000);
  const auto failed = RunAndRead({"sh", "-c", "echo why >&2; exit 1"}, folder_, 10'000);

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "data\n");
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("why"));
}

}  // namespace
}  // namespace ebb::experiments
