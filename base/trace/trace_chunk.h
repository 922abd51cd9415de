// The bytes of a trace file's header, chunks and end mark; used by writer and reader only.
//
//   header | chunk 0 | chunk 1 | ... | end mark
//
// A chunk is a 24-byte frame and one zstd frame of columns. The end mark tells a finished file from
// one cut between two chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"

namespace ebb::trace {

inline constexpr size_t kFrameBytes = 24;
inline constexpr size_t kHeaderFixedBytes = 36;
inline constexpr size_t kNoteBytesMax = 4096;
// A chunk is closed when it has either; so its decoded columns stay far below kChunkRawBytesMax.
inline constexpr size_t kChunkRecords = 8192;
inline constexpr size_t kChunkFingerprints = 131'072;
inline constexpr size_t kChunkRawBytesMax = 4 << 20;

// The first bytes of every trace file.
bool IsTraceMark(std::span<const std::byte> bytes);

std::string EncodeHeader(const TraceHeader& header);
// The total header length that its first kHeaderFixedBytes announce; DataLoss when impossible,
// InvalidArgument when this is no trace file or one of a newer version.
absl::StatusOr<size_t> HeaderBytes(std::span<const std::byte> fixed);
absl::StatusOr<TraceHeader> DecodeHeader(std::span<const std::byte> bytes);

// One frame: either announces a chunk's payload or is the end mark.
struct Frame {
  bool end = false;
  uint32_t number = 0;         // of the chunk; for the end mark the number of chunks
  uint32_t record_count = 0;   // chunk
  uint32_t stored_bytes = 0;   // chunk: of the zstd frame that follows
  uint32_t raw_bytes = 0;      // chunk: decompressed
  uint64_t total_records = 0;  // end mark
  uint32_t crc32c = 0;         // over the frame before this field and the payload
};

// The frame and payload of `records`.
absl::StatusOr<std::string> EncodeChunk(uint32_t number, std::span<const TraceRecord> records);
std::string EncodeEnd(uint32_t chunk_count, uint64_t total_records);
// Checks what can be checked without the payload, except the CRC.
absl::StatusOr<Frame> DecodeFrame(std::span<const std::byte> bytes);
// Verifies the CRC and decodes. `frame_bytes` are the kFrameBytes that `frame` came from.
absl::StatusOr<std::vector<TraceRecord>> DecodeChunk(const Frame& frame,
                                                     std::span<const std::byte> frame_bytes,
                                                     std::span<const std::byte> payload);
bool FrameCrcMatches(const Frame& frame, std::span<const std::byte> frame_bytes,
                     std::span<const std::byte> payload);

}  // namespace ebb::trace
