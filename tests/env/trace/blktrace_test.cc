// Binary blktrace, against files made here and against what blkparse makes of the same files.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/trace/trace_source_test_util.h"

namespace ebb::env {
namespace {

using testing::HasSubstr;
using trace::TraceOp;
using trace::TraceRecord;

constexpr uint32_t kRead = 1 << 16;
constexpr uint32_t kWrite = 2 << 16;
constexpr uint32_t kFlush = 4 << 16;
constexpr uint32_t kQueued = 16 << 16;
constexpr uint32_t kIssued = 64 << 16;
constexpr uint32_t kCompleted = 128 << 16;
constexpr uint32_t kPassthrough = 512 << 16;
constexpr uint32_t kNotify = 1024 << 16;
constexpr uint32_t kDiscard = 8192U << 16;
constexpr uint32_t kFua = 32768U << 16;
constexpr uint32_t kQ = kQueued | 1;
constexpr uint32_t kD = kIssued | 7;
constexpr uint32_t kC = kCompleted | 8;

struct Event {
  uint64_t time_ns = 0;
  uint64_t sector = 0;
  uint32_t bytes = 0;
  uint32_t action = 0;
  uint32_t cpu = 0;
  std::string data = {};
};

std::string Encode(const Event& event) {
  std::string bytes(48, '\0');
  auto put = [&bytes](size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
  put(0, uint32_t{0x65617407});
  put(4, uint32_t{1});
  put(8, event.time_ns);
  put(16, event.sector);
  put(24, event.bytes);
  put(28, event.action);
  put(32, uint32_t{4711});
  put(36, uint32_t{8 << 20 | 16});
  put(40, event.cpu);
  put(46, static_cast<uint16_t>(event.data.size()));
  return bytes + event.data;
}

std::string EncodeAll(const std::vector<Event>& events) {
  std::string bytes;
  for (const Event& event : events) bytes += Encode(event);
  return bytes;
}

TEST(BlktraceTest, FilesOfAllCpusAreMergedByTime) {
  const ReadResult result = ReadFilesAs(
      "blktrace", {EncodeAll({{10, 8, 4096, kQ | kRead, 0}, {30, 24, 4096, kQ | kRead, 0}}),
                   EncodeAll({{5, 16, 4096, kQ | kWrite, 1}, {20, 32, 4096, kQ | kWrite, 1}}), ""});

  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 4U);
  EXPECT_EQ(result.counts.back_steps, 0U);
  const std::array<uint64_t, 4> sectors = {16, 8, 32, 24};
  const std::array<uint64_t, 4> times_ns = {0, 5, 15, 25};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.records[i].offset, sectors[i] * 512);
    EXPECT_EQ(result.records[i].time_ns, times_ns[i]);
  }
}

TEST(BlktraceTest, FlagsMakeFlushesWritesAndTrims) {
  const ReadResult result =
      ReadAs("blktrace", EncodeAll({{1, 0, 0, kNotify, 0, std::string("fio\0", 4)},
                                    {2, 64, 4096, kQ | kWrite | kFlush | kFua, 0},
                                    {3, ~uint64_t{0}, 0, kQ | kWrite | kFlush, 0},
                                    {4, 128, 1 << 20, kQ | kWrite | kDiscard, 0},
                                    {5, 0, 36, kQ | kRead | kPassthrough, 0, "123456"},
                                    {6, 64, 4096, kD | kWrite, 0},
                                    {7, 64, 4096, kC | kWrite, 0}}));

  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 4U);
  EXPECT_EQ(result.records[0].op, TraceOp::kFlush);
  EXPECT_EQ(result.records[1].op, TraceOp::kWrite);
  EXPECT_TRUE(result.records[1].fua);
  EXPECT_EQ(result.records[2].op, TraceOp::kFlush);
  EXPECT_EQ(result.records[3].op, TraceOp::kTrim);
  EXPECT_EQ(result.records[3].bytes, kMiB);
  EXPECT_EQ(result.counts.messages, 1U);
  EXPECT_EQ(result.counts.other_events, 3U);
}

TEST(BlktraceTest, DamageAndCutsAreTold) {
  const std::string good = EncodeAll({{1, 8, 4096, kQ | kRead, 0}, {2, 8, 4096, kQ | kRead, 0}});
  std::string damaged = good;
  damaged[48 + 2] ^= 1;

  const ReadResult broken_magic = ReadAs("blktrace", damaged);
  const ReadResult cut = ReadAs("blktrace", good.substr(0, 90), {.broken_share_max = 1});
  const ReadResult cut_refused = ReadAs("blktrace", good.substr(0, 90));

  EXPECT_EQ(broken_magic.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(broken_magic.status.message()), HasSubstr("event 2 at byte 48"));
  EXPECT_EQ(cut.records.size(), 1U);
  EXPECT_EQ(cut.counts.broken, 1U);
  EXPECT_FALSE(cut_refused.status.ok());
}

// The text of blkparse for the files `stem`.blktrace.N, or empty without blkparse.
std::string Blkparse(const std::string& folder) {
  if (std::system("command -v blkparse >/dev/null") != 0) return {};
  const std::string command = "cd " + folder + " && blkparse -q -i t > text";
  EXPECT_EQ(std::system(command.c_str()), 0);
  return trace::ReadFile(folder + "/text");
}

// Goal: the two ways to one recording agree, binary directly and through blkparse's text.
// Method: random events of two CPUs, with the first at time 0 as blkparse counts from there.
TEST(BlktraceTest, BinaryAndBlkparseTextAreTheSameRequests) {
  const trace::ScratchFolder folder;
  Rng rng(1);
  uint64_t time_ns = 0;
  std::array<std::string, 2> files;
  const std::array<uint32_t, 5> kinds = {kRead, kWrite, kWrite | kFlush | kFua, kWrite | kDiscard,
                                         kWrite | kFua};
  for (int i = 0; i < 2000; ++i) {
    const auto cpu = static_cast<uint32_t>(rng.Below(2));
    const uint32_t kind = kinds[rng.Below(kinds.size())];
    const uint64_t sector = 8 * rng.Below(1 << 24);
    const auto bytes = static_cast<uint32_t>(4096 * (1 + rng.Below(32)));
    files[cpu] += Encode({time_ns, sector, bytes, kQ | kind, cpu});
    files[cpu] += Encode({time_ns + 1, sector, bytes, kD | kind, cpu});
    files[cpu] += Encode({time_ns + 2, sector, bytes, kC | kind, cpu});
    time_ns += 3 + rng.Below(1'000'000);
  }
  for (const size_t cpu : {0, 1}) {
    trace::WriteFile(folder.File("t.blktrace." + std::to_string(cpu)), files[cpu]);
  }
  const std::string text = Blkparse(folder.File(""));
  if (text.empty()) GTEST_SKIP() << "blkparse is not installed (package blktrace)";

  for (const std::string event : {"", "-d"}) {
    auto binary = OpenTrace(folder.File("t"), "blktrace" + event);
    ASSERT_TRUE(binary.ok()) << binary.status();
    const ReadResult of_binary = ReadAll(**binary);
    const ReadResult of_text = ReadAs("blkparse" + event, text);

    ASSERT_TRUE(of_binary.status.ok()) << of_binary.status;
    ASSERT_TRUE(of_text.status.ok()) << of_text.status;
    EXPECT_GT(of_binary.records.size(), 2000U);  // some are a flush and a write
    EXPECT_EQ(of_binary.records, of_text.records);
  }
}

}  // namespace
}  // namespace ebb::env
