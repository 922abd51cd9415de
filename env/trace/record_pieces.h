// Cutting a long request into several: what sinks and the replayer share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/trace/trace_format.h"

namespace ebb::env {

// The piece of `record` that begins `done_bytes` into it and has at most `bytes_max`, a whole
// number of blocks. It ends between two blocks, so that each block's fingerprint belongs to one
// piece (only the request's own ends may lie inside of a block).
inline trace::TraceRecord PieceOf(const trace::TraceRecord& record, uint64_t done_bytes,
                                  uint64_t bytes_max) {
  trace::TraceRecord piece{.time_ns = record.time_ns,
                           .op = record.op,
                           .fua = record.fua,
                           .offset = record.offset + done_bytes,
                           .compressed_per_mille = record.compressed_per_mille,
                           .device = record.device,
                           .latency_ns = record.latency_ns};
  piece.bytes =
      std::min(record.bytes - done_bytes, bytes_max - piece.offset % trace::kTraceBlockBytes);
  if (!record.HasContent()) return piece;
  const auto first =
      record.fingerprints.begin() + static_cast<int64_t>(piece.offset / trace::kTraceBlockBytes -
                                                         record.offset / trace::kTraceBlockBytes);
  piece.fingerprints.assign(
      first, first + static_cast<int64_t>(trace::BlocksTouched(piece.offset, piece.bytes)));
  return piece;
}

}  // namespace ebb::env
