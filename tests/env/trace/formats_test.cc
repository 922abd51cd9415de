// Each format's columns, units and polarity, on small files in tests/data/traces and by line.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

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

const std::string kFolder = std::string(EBB_SOURCE_DIR) + "/tests/data/traces/";

// The four requests that every file holds (tests/data/traces/make.py).
const std::array<TraceRecord, 4> kRequests = {
    TraceRecord{.time_ns = 0, .op = TraceOp::kRead, .offset = 4096, .bytes = 8192},
    TraceRecord{.time_ns = 1'500'000, .op = TraceOp::kWrite, .offset = 1 << 20, .bytes = 4096},
    TraceRecord{.time_ns = 2'000'000'000, .op = TraceOp::kWrite, .offset = 63 * 512, .bytes = 512},
    TraceRecord{
        .time_ns = 2'000'700'000, .op = TraceOp::kRead, .offset = 10 * kGiB, .bytes = 65536},
};

struct SampleFile {
  const char* name;
  const char* format;
  uint64_t time_unit_ns = 1;  // the stamps' resolution; 0: none
  bool certain = false;       // recognised without its format's name
  uint64_t device = 0;
};

void PrintTo(const SampleFile& file, std::ostream* out) { *out << file.name; }

constexpr uint64_t kDisk8_16 = 8U << 20 | 16;

class SampleFileTest : public testing::TestWithParam<SampleFile> {};

TEST_P(SampleFileTest, HoldsTheFourRequests) {
  const SampleFile& file = GetParam();
  auto source = OpenTrace(kFolder + file.name, file.format);
  ASSERT_TRUE(source.ok()) << source.status();

  const ReadResult result = ReadAll(**source);

  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.counts.broken, 0U);
  EXPECT_EQ(result.traits.format, file.format);
  EXPECT_EQ(result.traits.has_times, file.time_unit_ns > 0);
  ASSERT_EQ(result.records.size(), kRequests.size());
  for (size_t i = 0; i < kRequests.size(); ++i) {
    TraceRecord expected = kRequests[i];
    const uint64_t unit_ns = std::max<uint64_t>(file.time_unit_ns, 1);
    expected.time_ns = file.time_unit_ns == 0 ? 0 : expected.time_ns / unit_ns * unit_ns;
    if (!result.traits.has_ops) expected.op = TraceOp::kRead;
    EXPECT_EQ(result.records[i].time_ns, expected.time_ns) << i;
    EXPECT_EQ(result.records[i].op, expected.op) << i;
    EXPECT_EQ(result.records[i].offset, expected.offset) << i;
    EXPECT_EQ(result.records[i].bytes, expected.bytes) << i;
    if (file.device != 0) {
      EXPECT_EQ(result.records[i].device, file.device) << i;
    }
  }
}

TEST_P(SampleFileTest, IsRecognisedOnlyWhereItIsCertain) {
  const SampleFile& file = GetParam();

  const auto source = OpenTrace(kFolder + file.name);

  ASSERT_EQ(source.ok(), file.certain) << source.status();
  if (file.certain) {
    EXPECT_EQ((*source)->traits().format, file.format);
  } else {
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(file.format));
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllFormats, SampleFileTest,
    testing::Values(SampleFile{"requests.vscsi1", "vscsi1", 1000, true},
                    SampleFile{"requests.vscsi2", "vscsi2", 1000, true},
                    SampleFile{"requests.vscsicsv", "vscsicsv", 1000, true},
                    SampleFile{"requests.msr", "msr", 100, false, 1},
                    SampleFile{"requests.heimdall", "heimdall", 1000},
                    SampleFile{"requests.spc", "spc", 1000}, SampleFile{"requests.mqsim", "mqsim"},
                    SampleFile{"requests.disksim", "disksim"},
                    SampleFile{"requests.blkparse", "blkparse", 1, false, kDisk8_16},
                    SampleFile{"requests.blktrace.0", "blktrace", 1, true, kDisk8_16},
                    SampleFile{"requests.blktrace.1", "blktrace", 1, true, kDisk8_16},
                    SampleFile{"requests", "blktrace", 1, true, kDisk8_16},
                    SampleFile{"big_endian", "blktrace", 1, true, kDisk8_16},
                    SampleFile{"requests.v2.iolog", "iolog", 1000, true},
                    SampleFile{"requests.v3.iolog", "iolog", 1000, true},
                    SampleFile{"requests.fiu", "fiu", 1, false, 6U << 20},
                    SampleFile{"requests.alibaba", "alibaba", 1000, false, 7},
                    SampleFile{"requests.tencent", "tencent", kNsPerS, false, 1063},
                    SampleFile{"requests.systor", "systor", 1, true, 3},
                    SampleFile{"requests.lcscsv", "lcscsv", kNsPerS, true},
                    SampleFile{"requests.cachelib", "cachelib", kNsPerS, true},
                    SampleFile{"requests.hfp", "hfp", 1000, true},
                    SampleFile{"requests.arc", "arc", 0}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '.'; }, '_');
      return name;
    });

// Goal: no format without a small file in the tree. The "-d" formats are their parsers' others.
TEST(FormatsTest, EveryFormatHasASmallFile) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    names.push_back(file.path().filename());
  }
  names.emplace_back("../sqlite_ext4.ebbt");
  for (const TraceFormatInfo& format : TraceFormats()) {
    if (format.name.ends_with("-d")) continue;
    SCOPED_TRACE(format.name);
    const auto file = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.find("." + std::string(format.name)) != name.npos;
    });
    ASSERT_NE(file, names.end());
    auto source = OpenTrace(kFolder + *file, format.name);
    ASSERT_TRUE(source.ok()) << source.status();
    const ReadResult result = ReadAll(**source);
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_GT(result.records.size(), 1U);
    EXPECT_EQ(result.counts.broken, 0U);
  }
}

// One request of a line, without its time.
struct OneLine {
  const char* format;
  const char* line;
  TraceOp op;
  uint64_t offset;
  uint64_t bytes;
  uint64_t device = 0;
  uint64_t latency_ns = 0;
};

TEST(FormatsTest, ColumnsUnitsAndPolarityOfEveryTextFormat) {
  const std::vector<OneLine> lines = {
      // The examples that the formats' own documents give.
      {"msr", "128166477394345573,hm,1,Read,383496192,32768,113736", TraceOp::kRead, 383496192,
       32768, 1, 11'373'600},
      {"spc", "0,303567,3584,w,0.000000", TraceOp::kWrite, 303567 * 512, 3584},
      {"spc", "3, 5, 0, R, 0.5, anything, else", TraceOp::kRead, 2560, 0, 3},
      {"tencent", "1538323200,12910952,128,0,1063", TraceOp::kRead, 12910952ULL * 512, 65536, 1063},
      {"tencent", "1538323200,12910952,128,1,1063", TraceOp::kWrite, 12910952ULL * 512, 65536,
       1063},
      {"vscsicsv", "2147483692,4096,1,write,24048792,2756778716647", TraceOp::kWrite,
       24048792ULL * 512, 4096},
      // The same five columns: three formats, three meanings.
      {"mqsim", "100 0 8 16 1", TraceOp::kRead, 4096, 8192},
      {"mqsim", "100 0 8 16 0", TraceOp::kWrite, 4096, 8192},
      {"disksim", "100 0 8 16 1", TraceOp::kRead, 4096, 8192},
      {"disksim", "100 0 8 16 2", TraceOp::kWrite, 4096, 8192},
      {"heimdall", "100 0 8 16 1", TraceOp::kRead, 8, 16},
      {"heimdall", "100 0 8 16 0", TraceOp::kWrite, 8, 16},
      {"alibaba", "999,W,9223372032559808512,4294967295,1577808000000000", TraceOp::kWrite,
       9223372032559808512ULL, 4294967295ULL, 999},
      {"systor", "1455592741.000001000,0.000250000,W,6,512,1024", TraceOp::kWrite, 512, 1024, 6,
       250'000},
      {"lcscsv", "1,5633898,2a,512,42932745", TraceOp::kWrite, 42932745ULL * 512, 512},
      {"arcpage", "36443 2 0 0", TraceOp::kRead, 36443ULL * 4096, 8192},
      {"lirs", "96", TraceOp::kRead, 96 * 4096, 4096},
  };
  for (const OneLine& expected : lines) {
    SCOPED_TRACE(std::string(expected.format) + ": " + expected.line);

    const ReadResult result = ReadAs(expected.format, expected.line);

    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.records.size(), 1U);
    EXPECT_EQ(result.records[0].op, expected.op);
    EXPECT_EQ(result.records[0].offset, expected.offset);
    EXPECT_EQ(result.records[0].bytes, expected.bytes);
    EXPECT_EQ(result.records[0].device, expected.device);
    EXPECT_EQ(result.records[0].latency_ns, expected.latency_ns);
  }
}

TEST(FormatsTest, LinesThatOnlyLookRightAreBroken) {
  const std::vector<std::pair<const char*, const char*>> lines = {
      {"spc", "2,30862016,4096,W,2 448003"},  // the specification's own example
      {"spc", "0,5,512,x,0.5"},
      {"spc", "0,-5,512,R,0.5"},
      {"msr", "128166477394345573,hm,1,Raed,383496192,32768,113736"},
      {"msr", "1281664773943,hm,1,Read,383496192,32768,113736"},  // no FILETIME of any disk
      {"mqsim", "1.5 0 8 16 1 7"},
      {"mqsim", "100 0 8 16 3"},
      {"mqsim", "100 0 99999999999999999999 16 1"},
      {"mqsim", "100 0 36028797018963968 16 1"},  // 2^64 bytes
      {"mqsim", "100 0 36028797018963967 16 1"},  // ends beyond 2^64 bytes
      {"heimdall", "100 0 8 16 2"},
      {"tencent", "1538323200,12910952,128,2,1063"},
      {"alibaba", "1,X,0,512,1577808000000000"},
      {"alibaba", "1,R,0,512,1577808000.5"},
      {"systor", "1455592741.0,0.0002,X,6,512,1024"},
      {"lcscsv", "1,5633898,zz,512,42932745"},
      {"lirs", "12 13"},
      {"vscsicsv", "spurious"},
      {"blkparse", "no event"},
      {"fiu", "1 2 p 0 8 W 6 0 620f0b67"},
      {"fiu", "1 2 p 0 8 X 6 0 620f0b67a91f7f74151bc5be745b7110"},
  };
  for (const auto& [format, line] : lines) {
    const ReadResult result = ReadAs(format, line, {.broken_share_max = 1});
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.counts.broken, 1U) << format << ": " << line;
    EXPECT_EQ(result.records.size(), 0U) << format << ": " << line;
  }
}

TEST(FormatsTest, ABrokenWriteBehindItsFlushIsNotLostSilently) {
  const ReadResult result =
      ReadAs("blkparse", "  8,0  0  1  0.000000001  1  Q  FWFS 36028797018963967 + 8 [a]\n",
             {.broken_share_max = 1});
  ASSERT_EQ(result.records.size(), 1U);
  EXPECT_EQ(result.records[0].op, TraceOp::kFlush);
  EXPECT_EQ(result.counts.broken, 1U);
}

TEST(FormatsTest, StampsKeepEveryDigit) {
  // Beyond what a double holds: 128166372003061629 and the next are one value there.
  const ReadResult msr = ReadAs("msr",
                                "128166372003061629,hm,1,Read,0,512,1\n"
                                "128166372003061630,hm,1,Read,0,512,1\n");
  ASSERT_EQ(msr.records.size(), 2U);
  EXPECT_EQ(msr.records[1].time_ns, 100U);
  // 2007-02-22 17:00:00.306162 UTC
  EXPECT_EQ(msr.counts.first_stamp_ns, 1'172'163'600'306'162'900U);

  const ReadResult spc = ReadAs("spc", "0,0,512,R,0.000000001\n0,0,512,R,0.026214\n");
  EXPECT_EQ(spc.records[1].time_ns, 26'213'999U);
}

TEST(FormatsTest, DisksOfDifferentHostsAreDifferentDevices) {
  const ReadResult result = ReadAs("msr",
                                   "128166372003061629,hm,1,Read,0,512,1\n"
                                   "128166372003061629,prn,1,Read,0,512,1\n"
                                   "128166372003061629,hm,0,Read,0,512,1\n");
  ASSERT_EQ(result.records.size(), 3U);
  EXPECT_EQ(result.records[0].device, 1U);
  EXPECT_EQ(result.records[2].device, 0U);
  EXPECT_GT(result.records[1].device, 1U);
}

TEST(FormatsTest, ScsiCommandsThatAreNoReadsAreNotTakenForReads) {
  auto record = [](uint16_t command) {
    std::string bytes(32, '\0');
    bytes[4] = 0x10;
    bytes[12] = static_cast<char>(command);
    bytes[15] = 1;
    return bytes;
  };
  const ReadResult result =
      ReadAs("vscsi1", record(0x28) + record(0x42) + record(0x35) + record(0x12) + record(0x88));

  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 3U);
  EXPECT_EQ(result.records[1].op, TraceOp::kFlush);  // SYNCHRONIZE CACHE
  EXPECT_EQ(result.counts.other_events, 2U);         // UNMAP, INQUIRY
}

TEST(FormatsTest, AVscsiFileOfOneRecordIsReadWhenNamed) {
  std::string bytes(32, '\0');
  bytes[12] = 0x28;
  bytes[15] = 1;
  EXPECT_EQ(ReadAs("vscsi1", bytes).records.size(), 1U);
  // And cut inside a record: told, not swallowed.
  EXPECT_EQ(ReadAs("vscsi1", bytes + bytes.substr(0, 31), {.broken_share_max = 1}).counts.broken,
            1U);
}

TEST(FormatsTest, OracleRefusesWhatCannotBeTheNextAccess) {
  auto record = [](int64_t next) {
    std::string bytes(24, '\0');
    std::memcpy(bytes.data() + 16, &next, sizeof next);
    return bytes;
  };
  const std::string right = record(3) + record(INT64_MAX) + record(-1);
  const std::string distances = record(2) + record(1) + record(1);

  EXPECT_TRUE(ReadAs("oracle", right).status.ok());
  EXPECT_FALSE(ReadAs("oracle", distances).status.ok());
  EXPECT_FALSE(ReadAs("oracle", right).traits.has_ops);
}

TEST(FormatsTest, SystorRowsWithoutAKindAreSkipped) {
  const ReadResult result = ReadAs("systor",
                                   "Timestamp,Response,IOType,LUN,Offset,Size\n"
                                   "1455592741.000001000,,,6,512,1024\n"
                                   "1455592742.000001000,,R,6,512,1024\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.records.size(), 1U);
  EXPECT_EQ(result.counts.other_events, 1U);
}

TEST(FormatsTest, HfplayerColumnsAreFoundByName) {
  const ReadResult missing = ReadAs("hfp", "1,2,RD_IN,3,4\n");
  EXPECT_THAT(std::string(missing.status.message()), HasSubstr("line 1 at byte 0"));

  const ReadResult swapped =
      ReadAs("hfp", "#NBLKS.I,LBA.I,CMD.S,ELAPSED_USECS.D\n8,16,WR_IN,5.5\n");
  ASSERT_EQ(swapped.records.size(), 1U);
  EXPECT_EQ(swapped.records[0].offset, 8192U);
  EXPECT_EQ(swapped.records[0].bytes, 4096U);
  EXPECT_EQ(swapped.records[0].op, TraceOp::kWrite);
}

TEST(FormatsTest, TectonicBlocksAreDevices) {
  const std::string header =
      "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,"
      "host_name,rs_shard_id\n";
  const std::string tail = ",40,512,0,1,1,getChunkData.Permanent,1,1,1\n";
  const ReadResult result =
      ReadAs("cachelib", header + "5,aa-1" + tail + "5,aa-2" + tail + "5,aa-1" + tail +
                             "6,aa-1,40,512,0,1,1,deleteChunk,1,1,1\n");
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 3U);
  EXPECT_EQ(result.records[0].device, result.records[2].device);
  EXPECT_NE(result.records[0].device, result.records[1].device);
  EXPECT_EQ(result.counts.other_events, 1U);
}

// FIU: one digest a page or one a sector.
std::string FiuRow(uint64_t sector, uint64_t sectors, const std::string& digests) {
  return "777599999908936 2552 kjournald " + std::to_string(sector) + " " +
         std::to_string(sectors) + " W 6 0 " + digests + "\n";
}

const std::string kZeroSector = "bf619eac0cdf3f68d496ea9344137e8b";

TEST(FormatsTest, FiuDigestsArePerPageOrPerSector) {
  const std::string a(32, 'a');
  const std::string b(32, 'b');
  std::string sectors_a;
  std::string zero_sectors;
  for (int i = 0; i < 8; ++i) sectors_a += a;
  for (int i = 0; i < 8; ++i) zero_sectors += kZeroSector;

  const ReadResult result =
      ReadAs("fiu", FiuRow(0, 8, a) + FiuRow(8, 16, a + b) + FiuRow(24, 8, sectors_a) +
                        FiuRow(32, 8, zero_sectors) +
                        FiuRow(40, 8, "620f0b67a91f7f74151bc5be745b7110") + FiuRow(48, 2, a));

  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.records.size(), 6U);
  ASSERT_EQ(result.records[1].fingerprints.size(), 2U);
  EXPECT_EQ(result.records[0].fingerprints[0], result.records[1].fingerprints[0]);
  EXPECT_NE(result.records[1].fingerprints[0], result.records[1].fingerprints[1]);
  EXPECT_NE(result.records[2].fingerprints[0], result.records[0].fingerprints[0]);
  EXPECT_EQ(result.records[3].fingerprints, std::vector<uint64_t>{0});
  EXPECT_EQ(result.records[4].fingerprints, std::vector<uint64_t>{0});
  EXPECT_EQ(result.records[5].fingerprints.size(), 1U);
}

TEST(FormatsTest, FiuProcessNamesMayHoldBlanks) {
  const ReadResult result = ReadAs("fiu", "5 2552 a b c 8 8 R 6 1 " + std::string(32, 'a') + "\n");
  ASSERT_EQ(result.records.size(), 1U) << result.status;
  EXPECT_EQ(result.records[0].offset, 4096U);
  EXPECT_EQ(result.records[0].device, (6U << 20) + 1);
}

TEST(FormatsTest, FiuRequestsThatAreNotAlignedHaveAFingerprintForEachBlockTheyTouch) {
  const ReadResult result =
      ReadAs("fiu", FiuRow(1, 8, std::string(32, 'a')) + FiuRow(9, 8, std::string(32, 'a')) +
                        FiuRow(2, 8, std::string(32, 'a')));
  ASSERT_EQ(result.records.size(), 3U);
  EXPECT_EQ(result.records[0].fingerprints.size(), 2U);
  EXPECT_EQ(result.records[0].fingerprints, result.records[1].fingerprints);
  EXPECT_NE(result.records[0].fingerprints, result.records[2].fingerprints);
}

}  // namespace
}  // namespace ebb::env
