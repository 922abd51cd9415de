// Converting: to our format and back, to fio's iolog and through fio itself.
#include "env/trace/trace_sink.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "env/trace/trace_profile.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/trace/trace_source_test_util.h"

namespace ebb::env {
namespace {

using testing::HasSubstr;
using trace::ScratchFolder;
using trace::TraceOp;
using trace::TraceRecord;

ReadResult ReadPath(const std::string& path) {
  auto source = OpenTrace(path);
  if (!source.ok()) return {source.status(), {}, {}, {}};
  return ReadAll(**source);
}

// `records` as the file `path` of `format`.
SinkCounts WriteAs(const std::string& path, std::string_view format,
                   const std::vector<TraceRecord>& records, const SinkOptions& options = {}) {
  auto sink = OpenTraceSink(path, format, options);
  EXPECT_TRUE(sink.ok()) << sink.status();
  for (const TraceRecord& record : records) EXPECT_TRUE((*sink)->Append(record).ok());
  EXPECT_TRUE((*sink)->Close().ok());
  return (*sink)->counts();
}

TEST(TraceSinkTest, EveryFormatSurvivesTheWayThroughOurs) {
  const ScratchFolder folder;
  for (const char* name : {"requests.fiu", "requests.vscsi2", "requests.spc", "requests.systor",
                           "requests.v3.iolog", "requests.blkparse", "requests.msr"}) {
    const std::string format = std::filesystem::path(name).extension().string().substr(1);
    const std::string path = std::string(EBB_SOURCE_DIR) + "/tests/data/traces/" + name;
    auto before = OpenTrace(path, format);
    ASSERT_TRUE(before.ok()) << before.status();
    auto sink = OpenTraceSink(folder.File("t.ebbt"), "ebbt", {.note = "from a test"});
    ASSERT_TRUE(sink.ok()) << sink.status();

    ASSERT_TRUE(CopyTrace(**before, **sink).ok());

    const ReadResult after = ReadPath(folder.File("t.ebbt"));
    ASSERT_TRUE(after.status.ok()) << after.status;
    auto again = OpenTrace(path, format);
    EXPECT_EQ(after.records, ReadAll(**again).records) << name;
  }
}

TEST(TraceSinkTest, LongRequestsAreCutBetweenBlocksWithTheirFingerprints) {
  const ScratchFolder folder;
  TraceRecord write{.op = TraceOp::kWrite, .offset = 512, .bytes = 100 * kMiB};
  for (uint64_t i = 0; i < trace::BlocksTouched(write.offset, write.bytes); ++i) {
    write.fingerprints.push_back(i << 4 | 15);
  }

  const SinkCounts counts = WriteAs(folder.File("t.ebbt"), "ebbt", {write});

  const ReadResult result = ReadPath(folder.File("t.ebbt"));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(counts.cut, 1U);
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_EQ(result.records[0].offset + result.records[0].bytes, 64 * kMiB);
  EXPECT_EQ(result.records[1].offset + result.records[1].bytes, write.offset + write.bytes);
  std::vector<uint64_t> fingerprints = result.records[0].fingerprints;
  fingerprints.insert(fingerprints.end(), result.records[1].fingerprints.begin(),
                      result.records[1].fingerprints.end());
  EXPECT_EQ(fingerprints, write.fingerprints);
}

TEST(TraceSinkTest, IologKeepsEveryRequestItsDeviceAndItsTimeToTheMicrosecond) {
  const ScratchFolder folder;
  Rng rng(1);
  std::vector<TraceRecord> records;
  uint64_t time_us = 0;
  for (int i = 0; i < 5000; ++i) {
    TraceRecord record{.time_ns = time_us * kNsPerUs,
                       .op = static_cast<TraceOp>("RWFT"[rng.Below(4)])};
    record.device = rng.Below(3);
    if (record.op != TraceOp::kFlush) {
      record.offset = 512 * rng.Below(1 << 20);
      record.bytes = 512 * (1 + rng.Below(256));
    }
    records.push_back(record);
    time_us += rng.Below(2000);
  }
  // The reader numbers devices in the order in which they come.
  std::map<uint64_t, uint64_t> numbers;
  for (TraceRecord& record : records) {
    record.device = numbers.emplace(record.device, numbers.size()).first->second;
  }

  WriteAs(folder.File("t.iolog"), "iolog", records);

  const ReadResult result = ReadPath(folder.File("t.iolog"));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.records, records);
}

TEST(TraceSinkTest, WhatIologCannotHoldIsChangedToTheNearestAndCounted) {
  const ScratchFolder folder;
  const SinkCounts counts =
      WriteAs(folder.File("t.iolog"), "iolog",
              {{.op = TraceOp::kWriteZeroes, .bytes = 4096},
               {.op = TraceOp::kRead, .bytes = 0},
               {.op = TraceOp::kWrite, .fua = true, .offset = 4096, .bytes = 4096},
               {.op = TraceOp::kTrim, .offset = 0, .bytes = 5 * kGiB}});

  const ReadResult result = ReadPath(folder.File("t.iolog"));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(counts.changed, 2U);
  EXPECT_EQ(counts.left_out, 1U);
  EXPECT_EQ(counts.cut, 1U);
  ASSERT_EQ(result.records.size(), 8U);
  EXPECT_EQ(result.records[0].op, TraceOp::kWrite);
  EXPECT_EQ(result.records[1].op, TraceOp::kWrite);
  EXPECT_EQ(result.records[2].op, TraceOp::kFlush);
  for (size_t i = 3; i < 8; ++i) EXPECT_EQ(result.records[i].bytes, kGiB);
  EXPECT_THAT(OpenTraceSink(folder.File("x"), "csv", {}).status().message(), HasSubstr("csv"));
}

TEST(TraceSinkTest, AFullDiskIsAnError) {
  auto sink = OpenTraceSink("/dev/full", "iolog", {});
  ASSERT_TRUE(sink.ok());
  EXPECT_FALSE((*sink)->Close().ok());
}

// Direction, offset and length of each transfer of fio, in order, from its log of latencies.
std::vector<std::string> FioTransfers(const std::string& path) {
  std::ifstream log(path);
  std::vector<std::string> transfers;
  for (std::string line; std::getline(log, line);) {
    // time_ms, latency_ns, direction, bytes, offset, priority
    uint64_t time_ms = 0;
    uint64_t latency_ns = 0;
    uint64_t direction = 0;
    uint64_t bytes = 0;
    uint64_t offset = 0;
    char comma = 0;
    std::istringstream(line) >> time_ms >> comma >> latency_ns >> comma >> direction >> comma >>
        bytes >> comma >> offset;
    transfers.push_back(fmt::format("{} {} {}", direction, offset, bytes));
  }
  return transfers;
}

// Goal: fio takes what we write. Method: convert a trace, let fio replay it onto a file and log
// each transfer; compare with the trace, in order.
TEST(TraceSinkTest, FioReplaysWhatWeConvert) {
  if (std::system("command -v fio >/dev/null") != 0) GTEST_SKIP() << "fio is not installed";
  const ScratchFolder folder;
  Rng rng(3);
  std::vector<TraceRecord> records;
  std::vector<std::string> expected;
  for (uint64_t i = 0; i < 600; ++i) {
    TraceRecord record{.time_ns = i * 200 * kNsPerUs,
                       .op = static_cast<TraceOp>("RRWWF"[rng.Below(5)])};
    if (record.op != TraceOp::kFlush) {
      record.offset = 4096 * rng.Below(4096);
      record.bytes = 4096 * (1 + rng.Below(16));
      expected.push_back(fmt::format("{} {} {}", record.op == TraceOp::kWrite ? 1 : 0,
                                     record.offset, record.bytes));
    }
    records.push_back(record);
  }
  WriteAs(folder.File("t.iolog"), "iolog", records, {.file_name = "target"});
  trace::WriteFile(folder.File("target"), "");
  std::filesystem::resize_file(folder.File("target"), 32 * kMiB);

  const std::string command = fmt::format(
      "cd {} && timeout 60 fio --name=r --read_iolog=t.iolog --ioengine=psync --thread "
      "--write_lat_log=log --log_offset=1 --output=out.txt",
      folder.File(""));
  ASSERT_EQ(std::system(command.c_str()), 0) << trace::ReadFile(folder.File("out.txt"));

  EXPECT_EQ(FioTransfers(folder.File("log_clat.1.log")), expected);
}

// Goal: we take what fio writes. Method: fio writes a log of a random load with syncs; its own
// counts must be ours.
TEST(TraceSinkTest, WeReadWhatFioWrites) {
  if (std::system("command -v fio >/dev/null") != 0) GTEST_SKIP() << "fio is not installed";
  const ScratchFolder folder;
  const std::string command = fmt::format(
      "cd {} && timeout 60 fio --name=w --filename=target --size=8M --rw=randrw --bs=4k "
      "--io_size=2M --fsync=16 --ioengine=psync --thread --randseed=7 --write_iolog=w.iolog "
      "--write_lat_log=log --log_offset=1 --output=out.txt",
      folder.File(""));
  ASSERT_EQ(std::system(command.c_str()), 0) << trace::ReadFile(folder.File("out.txt"));

  const ReadResult result = ReadPath(folder.File("w.iolog"));

  ASSERT_TRUE(result.status.ok()) << result.status;
  std::vector<std::string> transfers;
  size_t flushes = 0;
  for (const TraceRecord& record : result.records) {
    if (record.op == TraceOp::kFlush) {
      ++flushes;
      continue;
    }
    transfers.push_back(
        fmt::format("{} {} {}", record.op == TraceOp::kWrite ? 1 : 0, record.offset, record.bytes));
  }
  EXPECT_EQ(transfers, FioTransfers(folder.File("log_clat.1.log")));
  EXPECT_GT(flushes, 5U);
  EXPECT_EQ(result.counts.broken, 0U);
}

}  // namespace
}  // namespace ebb::env
