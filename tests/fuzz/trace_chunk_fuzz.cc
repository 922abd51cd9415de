// Header, frames and chunks of a trace file.
#include <algorithm>

#include <zstd.h>

#include "base/trace/trace_chunk.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::fuzz {
namespace {

void DecodeFileHeader(Bytes input) {
  if (input.size() < trace::kHeaderFixedBytes) return;
  const auto bytes = trace::HeaderBytes(input.first(trace::kHeaderFixedBytes));
  if (bytes.ok() && *bytes <= input.size()) (void)trace::DecodeHeader(input.first(*bytes));
}

void DecodeOneChunk(Bytes input) {
  if (input.size() < trace::kFrameBytes) return;
  // Its last field is the sum over what comes before it and the payload.
  constexpr size_t kCrcOffset = trace::kFrameBytes - sizeof(uint32_t);
  std::string bytes = ToString(input);
  const Bytes all = AsBytes(bytes);
  const Bytes payload = all.subspan(trace::kFrameBytes);
  StoreCrc(reinterpret_cast<std::byte*>(bytes.data()) + kCrcOffset,
           Crc32c(payload, Crc32c(all.first(kCrcOffset))));
  const auto frame = trace::DecodeFrame(all.first(trace::kFrameBytes));
  if (!frame.ok() || frame->end || frame->stored_bytes > payload.size()) return;
  const auto records = trace::DecodeChunk(*frame, all.first(trace::kFrameBytes), payload);
  if (records.ok()) Require(records->size() == frame->record_count);
}

// The input as the columns of a chunk of so many records: behind checksum and compression, which no
// fuzzer gets through by itself.
void DecodeColumns(Bytes input) {
  static const std::string mark = trace::EncodeChunk(0, {})->substr(0, 4);
  const uint32_t record_count = TakeByte(input);
  std::string payload(ZSTD_compressBound(input.size()), '\0');
  const size_t stored =
      ZSTD_compress(payload.data(), payload.size(), input.data(), input.size(), 1);
  Require(ZSTD_isError(stored) == 0);
  payload.resize(stored);
  std::string frame_bytes = mark;
  for (const uint32_t field : {uint32_t{0}, record_count, static_cast<uint32_t>(stored),
                               static_cast<uint32_t>(input.size()), uint32_t{0}}) {
    frame_bytes.append(reinterpret_cast<const char*>(&field), sizeof field);
  }
  DecodeOneChunk(AsBytes(frame_bytes + payload));
}

}  // namespace

void Run(Bytes input) {
  switch (TakeByte(input) % 3) {
    case 0:
      return DecodeFileHeader(input);
    case 1:
      return DecodeOneChunk(input);
    default:
      return DecodeColumns(input);
  }
}

}  // namespace ebb::fuzz
