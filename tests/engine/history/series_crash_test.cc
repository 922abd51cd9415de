// Crashes while windows are appended: a window is in its series and in every roll-up, or nowhere.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/history/history.h"
#include "tests/support/program.h"

namespace ebb::engine {
namespace {

constexpr int64_t kWindowMs = 7'000;

SeriesPoint NthPoint(uint64_t n) {
  SeriesPoint point;
  point.wall_ms = kWindowMs * static_cast<int64_t>(n);
  point.index = static_cast<double>(n);
  return point;
}

// Fails unless all levels count the same windows, 0, 1, ... without a gap; returns how many.
void ExpectLevelsAgree(const std::string& directory, uint64_t& windows) {
  const auto history = OpenHistory(directory, {});
  ASSERT_TRUE(history.ok()) << history.status();
  const int64_t to_ms = 1'000'000'000;
  const auto single = (*history)->ReadSeries("a", 0, to_ms, 0);
  ASSERT_TRUE(single.ok()) << single.status();
  ASSERT_EQ(single->bucket_ms, 0);
  windows = single->buckets.size();
  if (windows == 0) return;
  const int64_t end_ms = single->buckets.back().mean.wall_ms + 1;
  EXPECT_EQ(end_ms, NthPoint(windows - 1).wall_ms + 1);
  for (const int64_t length_ms : {10'000, 60'000, 600'000}) {
    const auto points = static_cast<size_t>((end_ms + length_ms - 1) / length_ms);
    const auto series = (*history)->ReadSeries("a", 0, static_cast<int64_t>(points) * length_ms,
                                               std::max<size_t>(1, points));
    ASSERT_TRUE(series.ok()) << series.status();
    uint64_t counted = 0;
    double sum = 0;
    for (const SeriesBucket& bucket : series->buckets) {
      counted += bucket.windows;
      sum += bucket.mean.index * bucket.counts[0];
    }
    EXPECT_EQ(counted, windows) << length_ms;
    EXPECT_NEAR(sum, static_cast<double>(windows * (windows - 1)) / 2, 0.5) << length_ms;
  }
}

[[noreturn]] void AppendUntilKilled(const std::string& directory, uint64_t first, int pipe_end) {
  auto history = OpenHistory(directory, {});
  if (!history.ok()) _exit(1);
  for (uint64_t n = first;; ++n) {
    if (!(*history)->AppendPoint("a", NthPoint(n)).ok()) _exit(2);
    if (write(pipe_end, &n, sizeof n) < 0) _exit(3);
  }
}

// Goal: kill -9 at any moment loses no window that was told and counts none twice. Method: a child
// appends and tells each; it is killed after more and more of them, and the next goes on behind.
TEST(SeriesCrashTest, Kill9NeitherLosesNorDoublesAWindow) {
  const ebb::testing::ScratchFolder scratch;
  uint64_t present = 0;
  for (uint64_t round = 0; round < 12; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) AppendUntilKilled(scratch.path(), present, pipe_ends[1]);
    close(pipe_ends[1]);
    uint64_t told = present;  // windows
    uint64_t last = 0;
    while (told < present + 37 * round) {
      ASSERT_EQ(read(pipe_ends[0], &last, sizeof last), 8);
      told = last + 1;
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    while (read(pipe_ends[0], &last, sizeof last) == 8) told = last + 1;
    close(pipe_ends[0]);

    ExpectLevelsAgree(scratch.path(), present);
    if (HasFatalFailure()) return;
    EXPECT_GE(present, told);
    EXPECT_LE(present, told + 1);
  }
}

// A power cut keeps a beginning of RocksDB's log, cut anywhere.
TEST(SeriesCrashTest, ALogCutAnywhereLeavesTheLevelsAgreed) {
  const ebb::testing::ScratchFolder scratch;
  const std::string whole = scratch.path() + "/whole";
  const std::string cut = scratch.path() + "/cut";
  {
    const auto history = OpenHistory(whole, {});
    ASSERT_TRUE(history.ok()) << history.status();
    for (uint64_t n = 0; n < 120; ++n) ASSERT_TRUE((*history)->AppendPoint("a", NthPoint(n)).ok());
  }
  uint64_t log_bytes = 0;
  const auto log_of = [](const std::string& directory) {
    std::string log;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path();
    }
    return log;
  };
  log_bytes = std::filesystem::file_size(log_of(whole));
  ASSERT_GT(log_bytes, 100'000U);
  uint64_t most = 0;
  for (uint64_t bytes = log_bytes; bytes > 2'000; bytes -= std::min<uint64_t>(bytes, 5'461)) {
    std::filesystem::remove_all(cut);
    std::filesystem::copy(whole, cut);
    std::filesystem::resize_file(log_of(cut), bytes);

    uint64_t windows = 0;
    ExpectLevelsAgree(cut, windows);
    if (HasFatalFailure()) return;
    most = std::max(most, windows);
  }
  EXPECT_EQ(most, 120U);
}

}  // namespace
}  // namespace ebb::engine
