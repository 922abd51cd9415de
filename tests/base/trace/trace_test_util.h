// Scratch files and sample records of the trace tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/trace/trace_format.h"
#include "base/trace/trace_reader.h"
#include "base/trace/trace_writer.h"
#include "gtest/gtest.h"

namespace ebb::trace {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = "/tmp/ebb-trace-test-" + std::string(6, 'X');
    EBB_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// `count` records of every kind that only `seed` determines.
inline std::vector<TraceRecord> SampleRecords(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<TraceRecord> records;
  uint64_t time_ns = 0;
  for (size_t i = 0; i < count; ++i) {
    TraceRecord record;
    record.time_ns = time_ns += rng.Below(3'000'000);
    record.op = static_cast<TraceOp>("RRWWWFTZ"[rng.Below(8)]);
    record.fua = rng.Chance(0.1);
    if (record.op != TraceOp::kFlush) {
      record.offset = rng.Below(1 << 20) * 512;
      record.bytes = 512 * (1 + rng.Below(64));
    }
    if (record.op == TraceOp::kTrim) record.bytes = uint64_t{1} << (20 + rng.Below(15));
    if (record.op == TraceOp::kWrite) {
      record.compressed_per_mille = static_cast<uint16_t>(rng.Below(1001));
      record.fingerprints.resize(BlocksTouched(record.offset, record.bytes));
      for (uint64_t& fingerprint : record.fingerprints) fingerprint = rng.Next();
    }
    records.push_back(record);
  }
  return records;
}

inline void WriteTrace(const std::string& path, const TraceHeader& header,
                       const std::vector<TraceRecord>& records) {
  auto writer = TraceWriter::Create(path, header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const TraceRecord& record : records) {
    const absl::Status status = (*writer)->Append(record);
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_TRUE((*writer)->Close().ok());
}

struct ReadBack {
  absl::Status status;  // of opening or of the first failed record
  std::vector<TraceRecord> records;
};

inline ReadBack ReadTrace(const std::string& path) {
  ReadBack result;
  auto reader = TraceReader::Open(path);
  result.status = reader.status();
  if (!reader.ok()) return result;
  for (;;) {
    TraceRecord record;
    const absl::StatusOr<bool> more = (*reader)->Next(&record);
    result.status = more.status();
    if (!more.ok() || !*more) return result;
    result.records.push_back(record);
  }
}

}  // namespace ebb::trace
