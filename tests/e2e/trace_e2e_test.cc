// A load is replayed onto a real node and recorded from its stream at once: the same requests.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/e2e/served_node.h"

namespace ebb::testing {
namespace {

using ::testing::HasSubstr;
using trace::TraceOp;
using trace::TraceRecord;

const std::string kEbb = std::string(EBB_BINARY_DIR) + "/bin/ebb";

std::vector<TraceRecord> Load() {
  Rng rng(1);
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 1500; ++i) {
    // 500 a second: the node tells all of them, and looks at every write's content.
    TraceRecord record{.time_ns = i * 2 * kNsPerMs,
                       .op = static_cast<TraceOp>("RWWF"[rng.Below(4)])};
    if (record.op != TraceOp::kFlush) {
      record.offset = 4096 * rng.Below(8192);
      record.bytes = 4096;
    }
    if (record.op == TraceOp::kWrite) {
      // A third of them zeroes, the others of a few contents that do not shrink.
      const uint64_t content = rng.Below(30);
      record.fingerprints = {content < 10 ? 0 : content << 4 | 15};
      record.compressed_per_mille = content < 10 ? 0 : 1000;
    }
    records.push_back(record);
  }
  return records;
}

TEST(TraceE2eTest, WhatIsReplayedOntoANodeIsWhatItsStreamRecords) {
  const trace::ScratchFolder folder;
  ServedNode node(folder.File(""));
  ASSERT_TRUE(node.Start().ok());
  const std::vector<TraceRecord> load = Load();
  trace::WriteTrace(folder.File("load.ebbt"), {.volume_bytes = 32 * kMiB}, load);
  const std::string recorded_path = folder.File("recorded.ebbt");

  BackgroundProgram recording(
      kEbb, {"trace", "record", "--socket", node.control().socket_path(), recorded_path},
      folder.File("record.log"));
  while (!std::filesystem::exists(recorded_path)) {
    ASSERT_TRUE(recording.IsRunning());
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + 10 * kNsPerMs);
  }
  const ProgramResult replay =
      RunProgram(kEbb, {"trace", "replay", folder.File("load.ebbt"), "--uri", node.uri()});
  recording.Signal(SIGINT);
  EXPECT_EQ(recording.Wait(), 0) << recording.Log();

  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("1500 requests"));
  const trace::ReadBack back = trace::ReadTrace(recorded_path);
  ASSERT_TRUE(back.status.ok()) << back.status;
  // Requests that are in flight together may change places: what was asked for is compared.
  auto summary = [](const std::vector<TraceRecord>& records) {
    std::vector<std::string> lines;
    for (const TraceRecord& record : records) {
      lines.push_back(
          fmt::format("{} {} {}", static_cast<char>(record.op), record.offset, record.bytes));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(summary(back.records), summary(load));
  // Contents are looked at while the node is not busy: here for most, if not all.
  size_t zeroes = 0;
  size_t others = 0;
  for (const TraceRecord& record : back.records) {
    if (record.op != TraceOp::kWrite || !record.HasContent()) continue;
    (record.fingerprints[0] == 0 ? zeroes : others) += 1;
    EXPECT_GT(record.latency_ns, 0U);
  }
  EXPECT_GT(zeroes, 0U);
  EXPECT_GT(others, zeroes);
}

}  // namespace
}  // namespace ebb::testing
