// The replayer over a real NBD connection, to nbdkit's memory plugin.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trace/trace_content.h"
#include "base/units.h"
#include "env/trace/nbd_target.h"
#include "env/trace/replayer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"

namespace ebb::env {
namespace {

using trace::ScratchFolder;
using trace::TraceOp;
using trace::TraceRecord;

// An nbdkit process that serves memory on a socket and ends with the object.
class NbdServer {
 public:
  explicit NbdServer(const std::string& socket) : socket_(socket) {
    process_ = fork();
    if (process_ == 0) {
      execlp("nbdkit", "nbdkit", "-f", "-U", socket.c_str(), "memory", "64M", nullptr);
      _exit(127);
    }
    struct stat about {};
    for (int tries = 0; tries < 1000 && stat(socket.c_str(), &about) != 0; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~NbdServer() { Kill(); }
  NbdServer(const NbdServer&) = delete;
  NbdServer& operator=(const NbdServer&) = delete;

  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  std::string uri() const { return "nbd+unix:///?socket=" + socket_; }

 private:
  const std::string socket_;
  pid_t process_ = 0;
};

class NbdReplayTest : public testing::Test {
 protected:
  std::string Write(const std::vector<TraceRecord>& records) {
    WriteTrace(folder_.File("t.ebbt"), {.volume_bytes = 64 * kMiB}, records);
    return folder_.File("t.ebbt");
  }

  ScratchFolder folder_;
  NbdServer server_{folder_.File("nbd.sock")};
};

std::vector<std::byte> ReadBack(NbdTarget& target, uint64_t offset, uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  TargetRequest request{.offset = offset, .bytes = bytes, .data = data.data()};
  EXPECT_TRUE(target.Submit(&request).ok());
  std::vector<TargetRequest*> done;
  while (done.empty()) {
    EXPECT_TRUE(target.Wait(RealClock().MonotonicNs() + kNsPerS, &done).ok());
  }
  EXPECT_TRUE(request.status.ok()) << request.status;
  return data;
}

TEST_F(NbdReplayTest, WritesArriveAndTrimsAndZeroesClear) {
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 64; ++i) {
    records.push_back({.time_ns = i * 10'000,
                       .op = TraceOp::kWrite,
                       .fua = i % 8 == 0,
                       .offset = i * 64 * kKiB,
                       .bytes = 8192,
                       .fingerprints = {i * 16 + 16, i * 16 + 1'000'000}});
  }
  records.push_back({.time_ns = kNsPerMs, .op = TraceOp::kFlush});
  records.push_back(
      {.time_ns = 50 * kNsPerMs, .op = TraceOp::kTrim, .offset = 64 * kKiB, .bytes = 64 * kKiB});
  records.push_back({.time_ns = 50 * kNsPerMs,
                     .op = TraceOp::kWriteZeroes,
                     .offset = 128 * kKiB,
                     .bytes = 64 * kKiB});
  const std::string path = Write(records);
  auto target = NbdTarget::Connect(server_.uri());
  ASSERT_TRUE(target.ok()) << target.status();
  ASSERT_EQ((*target)->size_bytes(), 64 * kMiB);

  const auto report = ReplayTrace(path, **target, {});

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->requests(), records.size());
  EXPECT_EQ(report->errors(), 0U) << report->first_error;
  std::vector<std::byte> expected(8192);
  trace::MakeContent(5 * 64 * kKiB, records[5].fingerprints, expected);
  EXPECT_EQ(ReadBack(**target, 5 * 64 * kKiB, 8192), expected);
  EXPECT_EQ(ReadBack(**target, 64 * kKiB, 8192), std::vector<std::byte>(8192));
  EXPECT_EQ(ReadBack(**target, 128 * kKiB, 8192), std::vector<std::byte>(8192));
}

TEST_F(NbdReplayTest, AServerThatDiesIsUnavailable) {
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 10; ++i) {
    records.push_back({.time_ns = i * 1000, .offset = 0, .bytes = 4096});
  }
  const std::string path = Write(records);
  auto target = NbdTarget::Connect(server_.uri());
  ASSERT_TRUE(target.ok()) << target.status();
  server_.Kill();

  EXPECT_EQ(ReplayTrace(path, **target, {}).status().code(), absl::StatusCode::kUnavailable);
}

TEST(NbdTargetTest, SaysThatNobodyAnswers) {
  const absl::Status status =
      NbdTarget::Connect("nbd+unix:///?socket=/nonexistent/nbd.sock").status();

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), testing::HasSubstr("/nonexistent/nbd.sock"));
}

TEST(NbdTargetTest, RefusesWhatIsNoUri) {
  EXPECT_EQ(NbdTarget::Connect("not a uri").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::env
