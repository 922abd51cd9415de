#include "env/node/stream_trace.h"

#include <algorithm>

namespace ebb::env {

uint64_t ToTraceFingerprint(uint64_t fingerprint, uint16_t compressed_per_mille) {
  if (fingerprint == 0) return 0;
  return fingerprint << 4 | std::min<uint64_t>(uint64_t{compressed_per_mille} * 16 / 1000, 15);
}

trace::TraceRecord ToTraceRecord(const StreamEntry& entry) {
  trace::TraceRecord record{.time_ns = entry.time_ns,
                            .op = static_cast<trace::TraceOp>(entry.op),
                            .offset = entry.offset,
                            .bytes = entry.bytes};
  record.latency_ns = entry.service_ns;
  if (entry.has_content && record.op == trace::TraceOp::kWrite &&
      trace::BlocksTouched(record.offset, record.bytes) == 1) {
    record.compressed_per_mille = entry.compressed_per_mille;
    record.fingerprints = {ToTraceFingerprint(entry.fingerprint, entry.compressed_per_mille)};
  }
  return record;
}

}  // namespace ebb::env
