#include <cstring>
#include <span>
#include <string>

#include "base/crc32c.h"
#include "base/rng.h"
#include "base/trace/trace_chunk.h"
#include "base/trace/trace_reader.h"
#include "base/trace/trace_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/trace/trace_test_util.h"

namespace ebb::trace {
namespace {

using testing::HasSubstr;

const TraceHeader kHeader{
    .volume_bytes = 1 << 30, .recorded_wall_ms = 1'700'000'000'000, .note = "a sample"};

TEST(TraceFileTest, ReadsBackWhatWasWritten) {
  const ScratchFolder folder;
  const std::vector<TraceRecord> records = SampleRecords(20'000, 1);  // several chunks

  WriteTrace(folder.File("a"), kHeader, records);

  auto reader = TraceReader::Open(folder.File("a"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header(), kHeader);
  const ReadBack back = ReadTrace(folder.File("a"));
  EXPECT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.records, records);
}

TEST(TraceFileTest, KeepsDevicesLatenciesAndWhatIsKnownOfTheContent) {
  const ScratchFolder folder;
  std::vector<TraceRecord> records = SampleRecords(20'000, 2);
  Rng rng(3);
  for (size_t i = 0; i < records.size(); ++i) {
    TraceRecord& record = records[i];
    // The first chunk has none of it: such chunks leave the columns out.
    if (i < kChunkRecords) continue;
    record.device = rng.Chance(0.1) ? rng.Next() : rng.Below(3);
    record.latency_ns = rng.Below(1'000'000);
    if (record.op == TraceOp::kWrite && rng.Chance(0.5)) {
      record.fingerprints.clear();
      record.compressed_per_mille = 0;
    }
    if (record.op == TraceOp::kRead && rng.Chance(0.5)) {
      record.fingerprints.assign(BlocksTouched(record.offset, record.bytes), i);
      record.compressed_per_mille = 7;
    }
  }

  WriteTrace(folder.File("a"), kHeader, records);

  const ReadBack back = ReadTrace(folder.File("a"));
  EXPECT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.records, records);
}

TEST(TraceFileTest, ReadsFilesOfVersion1AndRefusesNewerOnes) {
  const ScratchFolder folder;
  const std::vector<TraceRecord> records = SampleRecords(100, 1);
  WriteTrace(folder.File("a"), kHeader, records);
  std::string bytes = ReadFile(folder.File("a"));
  for (const char version : {'\1', '\3'}) {
    bytes[8] = version;  // all else of a file without devices and latencies is the same
    const size_t crc_at = kHeaderFixedBytes + kHeader.note.size();
    const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes).first(crc_at)));
    std::memcpy(&bytes[crc_at], &crc, sizeof crc);
    WriteFile(folder.File("b"), bytes);

    const ReadBack back = ReadTrace(folder.File("b"));

    EXPECT_EQ(back.status.ok(), version == '\1') << back.status;
    EXPECT_EQ(back.records.size(), version == '\1' ? records.size() : 0);
  }
}

TEST(TraceFileTest, AnEmptyTraceIsWhole) {
  const ScratchFolder folder;

  WriteTrace(folder.File("a"), kHeader, {});

  const ReadBack back = ReadTrace(folder.File("a"));
  EXPECT_TRUE(back.status.ok()) << back.status;
  EXPECT_TRUE(back.records.empty());
}

// Goal: no flipped byte anywhere in a file goes unnoticed, and only whole records come out.
TEST(TraceFileTest, EveryDamagedByteIsDetected) {
  const ScratchFolder folder;
  const std::vector<TraceRecord> records = SampleRecords(12, 2);
  WriteTrace(folder.File("a"), kHeader, records);
  const std::string good = ReadFile(folder.File("a"));
  Rng rng(3);

  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ static_cast<char>(1 + rng.Below(255)));
    WriteFile(folder.File("b"), bad);

    const ReadBack back = ReadTrace(folder.File("b"));

    ASSERT_FALSE(back.status.ok()) << "byte " << at;
    ASSERT_THAT(back.status.message(), HasSubstr(folder.File("b")));
    ASSERT_TRUE(back.records.empty() || back.records == records) << "byte " << at;
  }
}

// Goal: a payload that is wrong but has a right checksum (a faulty writer) is never more than an
// error. Method: flip bytes of a good payload and make the checksum fit again.
TEST(TraceFileTest, NonsenseWithAGoodChecksumDoesNoHarm) {
  auto chunk = EncodeChunk(0, SampleRecords(200, 7));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  Rng rng(8);
  size_t refused = 0;

  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes(chunk->size());
    std::memcpy(bytes.data(), chunk->data(), chunk->size());
    for (uint64_t flips = 1 + rng.Below(4); flips > 0; --flips) {
      bytes[8 + rng.Below(bytes.size() - 8)] ^= static_cast<std::byte>(1 + rng.Below(255));
    }
    const std::span<const std::byte> all(bytes);
    const std::span<const std::byte> payload = all.subspan(kFrameBytes);
    absl::StatusOr<Frame> frame = DecodeFrame(all.first(kFrameBytes));
    if (frame.ok()) frame->crc32c = Crc32c(payload, Crc32c(all.first(20)));
    if (!frame.ok() || !DecodeChunk(*frame, all.first(kFrameBytes), payload).ok()) ++refused;
  }

  EXPECT_GT(refused, 300U);
}

TEST(TraceFileTest, EveryTruncationIsDetected) {
  const ScratchFolder folder;
  WriteTrace(folder.File("a"), kHeader, SampleRecords(12, 4));
  const std::string good = ReadFile(folder.File("a"));

  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    WriteFile(folder.File("b"), good.substr(0, bytes));
    ASSERT_FALSE(ReadTrace(folder.File("b")).status.ok()) << bytes;
  }
}

TEST(TraceFileTest, TheChunkIsNamedAndThoseBeforeItAreUsable) {
  const ScratchFolder folder;
  const std::vector<TraceRecord> records = SampleRecords(20'000, 5);
  WriteTrace(folder.File("a"), kHeader, records);
  std::string bytes = ReadFile(folder.File("a"));

  WriteFile(folder.File("cut"), bytes.substr(0, bytes.size() - 100));
  bytes[bytes.size() - 100] ^= 1;
  WriteFile(folder.File("bad"), bytes);

  const ReadBack cut = ReadTrace(folder.File("cut"));
  const ReadBack bad = ReadTrace(folder.File("bad"));
  EXPECT_THAT(cut.status.message(), HasSubstr("truncated: it ends in or before chunk 2"));
  EXPECT_THAT(bad.status.message(), HasSubstr("damaged at chunk 2: wrong checksum"));
  EXPECT_EQ(cut.records.size(), 2 * 8192U);
  EXPECT_EQ(bad.records.size(), 2 * 8192U);
}

TEST(TraceFileTest, AFileThatWasNeverClosedIsTruncated) {
  const ScratchFolder folder;
  auto writer = TraceWriter::Create(folder.File("a"), kHeader);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append({.op = TraceOp::kFlush}).ok());
  writer->reset();

  EXPECT_THAT(ReadTrace(folder.File("a")).status.message(), HasSubstr("truncated"));
}

TEST(TraceFileTest, DataAfterTheEndAreRefused) {
  const ScratchFolder folder;
  WriteTrace(folder.File("a"), kHeader, SampleRecords(10, 6));
  WriteFile(folder.File("a"), ReadFile(folder.File("a")) + "x");

  EXPECT_THAT(ReadTrace(folder.File("a")).status.message(), HasSubstr("data follow the end mark"));
}

TEST(TraceFileTest, OtherFilesAreRefused) {
  const ScratchFolder folder;
  WriteFile(folder.File("text"), std::string(1000, 'x'));
  WriteFile(folder.File("empty"), "");

  EXPECT_THAT(ReadTrace(folder.File("text")).status.message(), HasSubstr("not an Ebb trace"));
  EXPECT_THAT(ReadTrace(folder.File("empty")).status.message(), HasSubstr("not an Ebb trace"));
  EXPECT_EQ(ReadTrace(folder.File("none")).status.code(), absl::StatusCode::kNotFound);
}

TEST(TraceFileTest, WriterRefusesImpossibleRecords) {
  const ScratchFolder folder;
  auto writer = TraceWriter::Create(folder.File("a"), kHeader);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append({.time_ns = 100, .op = TraceOp::kFlush}).ok());

  EXPECT_FALSE((*writer)->Append({.time_ns = 99, .op = TraceOp::kFlush}).ok());
  EXPECT_FALSE(
      (*writer)
          ->Append({.time_ns = 100, .op = TraceOp::kWrite, .bytes = 4096, .fingerprints = {1, 2}})
          .ok());
  EXPECT_FALSE(
      (*writer)
          ->Append(
              {.time_ns = 100, .op = TraceOp::kWrite, .bytes = 4096, .compressed_per_mille = 500})
          .ok());
  EXPECT_FALSE((*writer)->Append({.time_ns = 100, .offset = ~uint64_t{0}, .bytes = 4096}).ok());
  EXPECT_FALSE((*writer)->Append({.time_ns = 100, .bytes = 65 << 20}).ok());
  EXPECT_EQ((*writer)->record_count(), 1U);
}

TEST(TraceFileTest, WriterReportsAFullDisk) {
  auto writer = TraceWriter::Create("/dev/full", kHeader);

  EXPECT_EQ(writer.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ebb::trace
