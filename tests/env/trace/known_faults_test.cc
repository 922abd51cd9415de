// Faults of public trace readers and replayers, each with its report: ours must not have them.
// (Replaying is tested in replayer_test.cc and nbd_replay_test.cc; here is what reading must do.)
#include <string>

#include "base/units.h"
#include "env/trace/trace_profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/trace/trace_source_test_util.h"

namespace ebb::env {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using trace::TraceOp;
using trace::TraceRecord;

TraceProfile ProfileOf(std::string_view format, const std::string& text) {
  auto stream = ByteStream::FromMemory(text, "sample");
  std::vector<std::unique_ptr<ByteStream>> streams;
  streams.push_back(*std::move(stream));
  auto source = OpenStreams(std::move(streams), **FindFormat(format), {});
  auto profile = ProfileTrace(**source);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return *profile;
}

// axboe/fio#1567: a log with I/O before add and open crashes.
TEST(KnownFaultsTest, IologRequestBeforeOpenIsAnErrorThatNamesTheLine) {
  const ReadResult before_add = ReadAs("iolog", "fio version 3 iolog\n5 f read 0 4096\n");
  const ReadResult before_open =
      ReadAs("iolog", "fio version 2 iolog\nf add\nf read 0 4096\nf open\n");
  const ReadResult unknown = ReadAs("iolog", "fio version 2 iolog\nf open\n");

  EXPECT_THAT(std::string(before_add.status.message()),
              AllOf(HasSubstr("line 2 at byte 20"), HasSubstr("added and opened")));
  EXPECT_THAT(std::string(before_open.status.message()), HasSubstr("line 3"));
  EXPECT_THAT(std::string(unknown.status.message()), HasSubstr("line 2"));
}

// axboe/fio#756, #1560: `wait` misread; delays applied twice.
TEST(KnownFaultsTest, IologWaitHasTwoMeaningsAndTheReaderSaysWhichItTook) {
  const std::string log =
      "fio version 2 iolog\nf add\nf open\nf read 0 512\nf wait 8000 0\nf read 0 512\n"
      "f wait 99 0\nf read 0 512\nf wait 9000 0\nf read 0 512\n";

  const ReadResult by_doc = ReadAs("iolog", log);
  const ReadResult by_code = ReadAs("iolog", log, {.iolog_wait_is_ms_since_start = true});

  ASSERT_EQ(by_doc.records.size(), 4U);
  EXPECT_EQ(by_doc.records[1].time_ns, 8 * kNsPerMs);   // since the wait before
  EXPECT_EQ(by_doc.records[2].time_ns, 8 * kNsPerMs);   // below 100 us: dropped
  EXPECT_EQ(by_doc.records[3].time_ns, 17 * kNsPerMs);  // once, not twice
  EXPECT_EQ(by_code.records[1].time_ns, 8 * kNsPerS);
  EXPECT_EQ(by_code.records[3].time_ns, 9 * kNsPerS);  // since the start

  auto stream = ByteStream::FromMemory(log, "sample");
  std::vector<std::unique_ptr<ByteStream>> streams;
  streams.push_back(*std::move(stream));
  auto source = OpenStreams(std::move(streams), **FindFormat("iolog"), {});
  EXPECT_EQ((*source)->warning(), "");
  ReadAll(**source);
  EXPECT_THAT((*source)->warning(), HasSubstr("HOWTO"));
}

TEST(KnownFaultsTest, IologWaitInVersion3IsAnErrorOfTheLine) {
  const ReadResult result = ReadAs(
      "iolog", "fio version 3 iolog\n1 f add\n1 f open\n5 f wait 1 0\n", {.broken_share_max = 1});
  EXPECT_EQ(result.counts.broken, 1U);
}

// axboe/fio: lengths were read with 32 bits, names with blanks cut, and delays lost while the last
// stamp was 0.
TEST(KnownFaultsTest, IologLengthsHave64BitsAndNamesHoldBlanks) {
  const ReadResult result = ReadAs("iolog",
                                   "fio version 3 iolog\n0 my own file add\n0 my own file open\n"
                                   "0 my own file trim 4096 1099511627776\n"
                                   "7 my own file datasync 99 99\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_EQ(result.records[0].bytes, 1'099'511'627'776U);
  EXPECT_EQ(result.records[1].time_ns, 7'000U);
  EXPECT_EQ(result.records[1].offset, 0U);  // that of a sync means nothing
}

// axboe/fio#772: stamps cut from ns to us make a replay slower.
TEST(KnownFaultsTest, NanosecondsAreNotCutToMicroseconds) {
  const ReadResult result =
      ReadAs("blkparse",
             "  8,0  0  1  0.000000001  1  Q  R 0 + 8 [a]\n  8,0  0  2  0.000000850  1  Q  R 0 + 8 "
             "[a]\n");
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_EQ(result.records[1].time_ns, 849U);
}

// axboe/fio#769: trims are not read. #1978, PR#2133: of a flush and write (FWFS) only the flush.
TEST(KnownFaultsTest, TrimsAndWritesThatFlushFirstAreKeptWhole) {
  const ReadResult result = ReadAs("blkparse",
                                   "  8,0  0  1  0.000000001  1  Q  FWFS 64 + 8 [jbd2/sda1-8]\n"
                                   "  8,0  0  2  0.000000002  1  Q  DS 128 + 2048 [fstrim]\n"
                                   "  8,0  0  3  0.000000003  1  Q  FWS [jbd2/sda1-8]\n"
                                   "  8,0  0  4  0.000000004  1  Q  WFS 8 + 8 [x]\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 5U);
  EXPECT_EQ(result.records[0].op, TraceOp::kFlush);
  EXPECT_EQ(
      result.records[1],
      (TraceRecord{
          .op = TraceOp::kWrite, .fua = true, .offset = 32768, .bytes = 4096, .device = 8 << 20}));
  EXPECT_EQ(result.records[2].op, TraceOp::kTrim);
  EXPECT_EQ(result.records[2].bytes, kMiB);
  EXPECT_EQ(result.records[3].op, TraceOp::kFlush);
  EXPECT_TRUE(result.records[4].fua);
}

// axboe/fio#1978: which event counts changes the sizes. Ours is part of the format's name.
TEST(KnownFaultsTest, OneRequestIsCountedOnceInBlkparse) {
  const std::string text =
      "  8,0  0  1  0.000000001  1  A  R 2056 + 8 <- (8,1) 8\n"
      "  8,0  0  2  0.000000002  1  Q  R 2056 + 8 [a]\n"
      "  8,0  0  3  0.000000003  1  G  R 2056 + 8 [a]\n"
      "  8,0  0  4  0.000000004  1  Q  R 2064 + 8 [a]\n"
      "  8,0  0  5  0.000000005  1  M  R 2064 + 8 [a]\n"
      "  8,0  0  6  0.000000006  1  D  R 2056 + 16 [a]\n"
      "  8,0  0  7  0.000000007  1  C  R 2056 + 16 [0]\n";
  const ReadResult asked = ReadAs("blkparse", text);
  const ReadResult issued = ReadAs("blkparse-d", text);

  EXPECT_EQ(asked.records.size(), 2U);
  ASSERT_EQ(issued.records.size(), 1U);
  EXPECT_EQ(issued.records[0].bytes, 8192U);
}

// axboe/fio#1257: one CPU's blktrace file given as an iolog: "iolog version 1 is no longer
// supported". (That all CPUs' files are merged: formats_test.cc.)
TEST(KnownFaultsTest, ABlktraceFileGivenAsIologIsNamedAsWhatItIs) {
  const ReadResult result = ReadAs("iolog", std::string("\x07tae", 4) + std::string(44, '\0'));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("binary blktrace"));
  const ReadResult version1 = ReadAs("iolog", "0, 0, 4096\n");
  EXPECT_THAT(std::string(version1.status.message()), HasSubstr("version 1 is not supported"));
}

// ben-manes/caffeine PR#1968: the ASU was left out of the key, so volumes aliased. PR#1963: sector
// numbers advanced by 512, so nothing overlapped.
TEST(KnownFaultsTest, PlacesOfDifferentUnitsDifferAndOverlapsAreFound) {
  const TraceProfile units = ProfileOf("spc", "0,8,4096,R,0\n1,8,4096,R,1\n2,8,4096,R,2\n");
  EXPECT_EQ(units.footprint_blocks, 3);
  EXPECT_EQ(units.reuse_share, 0);

  const TraceProfile overlap = ProfileOf("spc", "0,8,8192,R,0\n0,16,4096,R,1\n");
  EXPECT_EQ(overlap.footprint_blocks, 2);
  EXPECT_NEAR(overlap.reuse_share, 1.0 / 3, 1e-9);
}

// 1a1a11a/libCacheSim#54: reads and writes not told apart. #99: large requests not split to 4 KiB.
TEST(KnownFaultsTest, ReadsAndWritesAreApartAndLargeRequestsAreManyBlocks) {
  const TraceProfile profile =
      ProfileOf("vscsicsv", "1,65536,1,read,8,100\n2,4096,1,write,8,200\n");
  EXPECT_EQ(profile.reads, 1U);
  EXPECT_EQ(profile.writes, 1U);
  EXPECT_EQ(profile.footprint_blocks, 16);
  EXPECT_EQ(profile.rewrite_share, 0);
}

// 1a1a11a/libCacheSim#161: a compressed binary file read as raw gives a wrong count, silently.
TEST(KnownFaultsTest, ACompressedBinaryFileIsNotTakenForData) {
  const trace::ScratchFolder folder;
  const std::string path = folder.File("trace.bin");  // the name does not say it
  const std::string source_path =
      std::string(EBB_SOURCE_DIR) + "/tests/data/traces/requests.vscsi1";
  ASSERT_EQ(std::system(("gzip -c " + source_path + " > " + path).c_str()), 0);

  auto source = OpenTrace(path);

  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadAll(**source).records.size(), 4U);
}

// cacheMon/libCacheSim#13: a crash on content that is something else.
TEST(KnownFaultsTest, WrongContentIsAnErrorInEveryFormat) {
  const std::string garbage(100'000, '\xa7');
  for (const TraceFormatInfo& format : TraceFormats()) {
    const ReadResult result = ReadAs(format.name, garbage);
    EXPECT_FALSE(result.status.ok()) << format.name;
    EXPECT_EQ(result.records.size(), 0U) << format.name;
  }
}

// CMU-SAFARI/MQSim#74: seconds given as ns made bandwidth infinite; PR#23: the unit option was
// ignored. Here the unit belongs to the format, and a fraction of a nanosecond betrays seconds.
TEST(KnownFaultsTest, SecondsInANanosecondFormatAreRefused) {
  EXPECT_FALSE(ReadAs("mqsim", "0.5 0 8 8 1\n1.5 0 8 8 1\n").status.ok());
}

// facebook/CacheLib#301: an absolute start of 1702511878 s was replayed as a wait of 54 years.
TEST(KnownFaultsTest, AnAbsoluteStartIsNoWait) {
  const TraceProfile profile = ProfileOf("spc", "0,8,4096,R,1702511878.5\n0,8,4096,R,1702511879\n");
  EXPECT_EQ(profile.span_s, 0.5);
  EXPECT_EQ(profile.mean_iops, 4);
}

}  // namespace
}  // namespace ebb::env
