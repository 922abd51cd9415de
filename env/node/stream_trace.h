// A request of a node's stream as a record of a trace.
#pragma once

#include "base/trace/trace_format.h"
#include "env/node/stream_descriptor.h"

namespace ebb::env {

// Its time stays that of the node's clock. The node tells the content of a write's first block, so
// only that of a write of one block is known.
trace::TraceRecord ToTraceRecord(const StreamEntry& entry);

// The node's fingerprint has 53 bits and its compressibility apart; a trace's has both in one
// (base/trace/trace_content.h).
uint64_t ToTraceFingerprint(uint64_t fingerprint, uint16_t compressed_per_mille);

}  // namespace ebb::env
