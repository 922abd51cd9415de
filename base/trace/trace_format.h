// Records of block requests and their file format, `.ebbt`: what the recorder writes and the
// replayer reads.
//
// A trace says when each request came, what it was and, for writes, what its data was like: a
// fingerprint of every 4 KiB block, so that duplicates and compressibility can be repeated without
// keeping the data (trace_content.h). The exact bytes: docs/formats.md, "Trace file".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ebb::trace {

inline constexpr uint32_t kTraceBlockBytes = 4096;
// The largest request that a trace holds; NBD's own limit is 64 MiB for data, trims may be longer.
inline constexpr uint64_t kTraceDataBytesMax = 64ull << 20;

enum class TraceOp : char {
  kRead = 'R',
  kWrite = 'W',
  kFlush = 'F',
  kTrim = 'T',
  kWriteZeroes = 'Z',
};

struct TraceRecord {
  uint64_t time_ns = 0;  // since the trace began; never less than the record before
  TraceOp op = TraceOp::kRead;
  bool fua = false;
  uint64_t offset = 0;  // bytes, any alignment
  uint64_t bytes = 0;
  // Where the content is known (of writes when recorded by Ebb, of reads in FIU's traces): LZ4's
  // output over the whole request, per mille of `bytes`, at most 1000; and a fingerprint for each
  // 4 KiB block that the request touches, in order. A block covered only in part has the
  // fingerprint of that part. Else 0 and none.
  uint16_t compressed_per_mille = 0;
  std::vector<uint64_t> fingerprints = {};
  // Which volume of several in one trace: places of different devices are different places.
  uint64_t device = 0;
  uint64_t latency_ns = 0;  // as recorded, from issue to completion; 0: not known

  // Whether the content is known. That of an empty write is.
  bool HasContent() const { return !fingerprints.empty() || (op == TraceOp::kWrite && bytes == 0); }

  friend bool operator==(const TraceRecord&, const TraceRecord&) = default;
};

struct TraceHeader {
  uint64_t volume_bytes = 0;     // size of the recorded device
  int64_t recorded_wall_ms = 0;  // Unix time of the begin
  std::string note = {};         // what was recorded, for people; at most 4096 bytes

  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

// Blocks of 4 KiB that [offset, offset + bytes) touches.
inline uint64_t BlocksTouched(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return 0;
  return (offset + bytes - 1) / kTraceBlockBytes - offset / kTraceBlockBytes + 1;
}

}  // namespace ebb::trace
