// What all formats have in common: compression, broken entries, times, detection.
#include "env/trace/trace_source.h"

#include <fstream>
#include <string>

#include <zlib.h>
#include <zstd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"
#include "tests/env/trace/trace_source_test_util.h"

namespace ebb::env {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using trace::ScratchFolder;
using trace::TraceOp;
using trace::TraceRecord;

constexpr const char* kTwoLines = "1000 0 8 16 1\n3000 2 24 8 0\n";

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string Gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 100, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void ExpectTheTwoLines(const ReadResult& result) {
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_EQ(result.records[0],
            (TraceRecord{.time_ns = 0, .op = TraceOp::kRead, .offset = 4096, .bytes = 8192}));
  EXPECT_EQ(
      result.records[1],
      (TraceRecord{
          .time_ns = 2000, .op = TraceOp::kWrite, .offset = 12288, .bytes = 4096, .device = 2}));
}

TEST(TraceSourceTest, ReadsPlainZstdAndGzipAlike) {
  ExpectTheTwoLines(ReadAs("mqsim", kTwoLines));
  ExpectTheTwoLines(ReadAs("mqsim", Zstd(kTwoLines)));
  ExpectTheTwoLines(ReadAs("mqsim", Gzip(kTwoLines)));
}

TEST(TraceSourceTest, ReadsSeveralFramesAndMembersAsOneStream) {
  ExpectTheTwoLines(ReadAs("mqsim", Zstd("1000 0 8 16 1\n") + Zstd("3000 2 24 8 0\n")));
  ExpectTheTwoLines(ReadAs("mqsim", Gzip("1000 0 8 16 1\n3000 2") + Gzip(" 24 8 0\n")));
}

TEST(TraceSourceTest, CutOrDamagedCompressionIsDataLoss) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += std::to_string(i * 977) + " 0 8 16 1\n";
  for (std::string stored : {Zstd(lines), Gzip(lines)}) {
    std::string cut = stored.substr(0, stored.size() / 2);
    EXPECT_EQ(ReadAs("mqsim", cut).status.code(), absl::StatusCode::kDataLoss);
    std::string garbage = stored + "not a frame at all";
    EXPECT_EQ(ReadAs("mqsim", garbage).status.code(), absl::StatusCode::kDataLoss);
  }
}

TEST(TraceSourceTest, LinesMayEndInCarriageReturnAndTheLastInNothing) {
  ExpectTheTwoLines(ReadAs("mqsim", "1000 0 8 16 1\r\n3000\t2  24 8 0"));
  ExpectTheTwoLines(ReadAs("mqsim", "1000 0 8 16 1\n3000 2 24 8 0\n\n"));
}

TEST(TraceSourceTest, BrokenLinesAreCountedAndLocated) {
  std::string lines;
  for (int i = 0; i < 99; ++i) lines += "7 0 8 16 1\n";
  lines += "7 0 x 16 1\n";
  for (int i = 0; i < 100; ++i) lines += "7 0 8 16 1\n";
  lines += "7 0 8 16 2\n";

  const ReadResult result = ReadAs("mqsim", lines);

  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.counts.records, 199U);
  EXPECT_EQ(result.counts.broken, 2U);
  ASSERT_EQ(result.counts.samples.size(), 2U);
  EXPECT_EQ(result.counts.samples[0].line, 100U);
  EXPECT_EQ(result.counts.samples[0].offset, 99U * 11);
  EXPECT_EQ(result.counts.samples[1].line, 201U);
  EXPECT_THAT(result.counts.samples[1].reason, HasSubstr("neither 1 (read) nor 0 (write)"));
}

TEST(TraceSourceTest, MoreThanOnePercentBrokenIsAnErrorUnlessToldOtherwise) {
  std::string lines;
  for (int i = 0; i < 97; ++i) lines += "7 0 8 16 1\n";
  lines += "junk\nmore junk\n";

  const ReadResult refused = ReadAs("mqsim", lines);
  const ReadResult allowed = ReadAs("mqsim", lines, {.broken_share_max = 0.05});

  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()),
              AllOf(HasSubstr("2 of 99"), HasSubstr("number 98 at byte 1067")));
  EXPECT_TRUE(allowed.status.ok()) << allowed.status;
  EXPECT_EQ(allowed.counts.records, 97U);
}

TEST(TraceSourceTest, AWrongFormatIsGivenUpEarly) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "no request\n";

  const ReadResult result = ReadAs("mqsim", lines);

  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LT(result.counts.broken, 2000U);
}

TEST(TraceSourceTest, AnEndlessLineIsOneBrokenLineInConstantMemory) {
  const std::string lines =
      "1 0 8 16 1\n" + std::string(1 << 20, 'x') + "\n2 0 8 16 1\n" + std::string(70'000, 'y');

  const ReadResult result = ReadAs("mqsim", lines, {.broken_share_max = 0.5});

  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.counts.records, 2U);
  EXPECT_EQ(result.counts.broken, 2U);
  EXPECT_THAT(result.counts.samples[0].reason, HasSubstr("longer than 64 KiB"));
  EXPECT_EQ(result.counts.samples[1].line, 4U);
}

TEST(TraceSourceTest, TimesStartAtTheFirstRecordAndNeverRunBackwards) {
  const ReadResult result = ReadAs("mqsim", "500 0 8 8 1\n900 0 8 8 1\n700 0 8 8 1\n950 0 8 8 1\n");

  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.records[0].time_ns, 0U);
  EXPECT_EQ(result.records[1].time_ns, 400U);
  EXPECT_EQ(result.records[2].time_ns, 400U);
  EXPECT_EQ(result.records[3].time_ns, 450U);
  EXPECT_EQ(result.counts.back_steps, 1U);
}

TEST(TraceSourceTest, AnUncertainFormatIsAnErrorThatNamesTheLikelyOnes) {
  const ScratchFolder folder;
  const std::string path = folder.File("five_columns");
  std::ofstream(path) << kTwoLines;

  const auto source = OpenTrace(path);

  ASSERT_FALSE(source.ok());
  EXPECT_THAT(std::string(source.status().message()),
              AllOf(HasSubstr("mqsim"), HasSubstr("disksim"), HasSubstr("heimdall"),
                    Not(HasSubstr("spc"))));
}

TEST(TraceSourceTest, AnUnknownFormatNameIsAnErrorWithTheNearestOne) {
  const ScratchFolder folder;

  const auto source = OpenTrace(folder.File("any"), "diskism");

  EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("did you mean 'disksim'"));
}

TEST(TraceSourceTest, OwnFormatIsRecognisedAndReadWhole) {
  const ScratchFolder folder;
  const std::string path = folder.File("own.ebbt");
  const std::vector<TraceRecord> written = trace::SampleRecords(20'000, 1);
  trace::WriteTrace(path, {.volume_bytes = 1 << 30}, written);

  auto source = OpenTrace(path);

  ASSERT_TRUE(source.ok()) << source.status();
  const ReadResult result = ReadAll(**source);
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.records, written);
  EXPECT_EQ(result.traits.volume_bytes, 1U << 30);
  EXPECT_EQ((*source)->progress(), 1);
}

TEST(TraceSourceTest, OwnFormatMayBeCompressedOnceMore) {
  const ScratchFolder folder;
  const std::vector<TraceRecord> written = trace::SampleRecords(20'000, 1);
  trace::WriteTrace(folder.File("own.ebbt"), {.volume_bytes = 1 << 30}, written);
  const std::string bytes = trace::ReadFile(folder.File("own.ebbt"));

  for (const std::string& stored : {bytes, Zstd(bytes), Gzip(bytes)}) {
    const ReadResult result = ReadAs("ebbt", stored);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.records, written);
  }
  EXPECT_EQ(ReadAs("ebbt", bytes.substr(0, bytes.size() / 2)).status.code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadAs("ebbt", bytes + "more").status.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ebb::env
