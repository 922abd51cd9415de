// What blktrace's flags make of an event: shared by the binary format and blkparse's text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/trace/trace_format.h"

namespace ebb::env {

struct RequestFlags {
  bool read = false;
  bool write = false;
  bool discard = false;
  bool preflush = false;  // flush before the request, or nothing but a flush
  bool fua = false;
};

// The requests that one event is: none (a passthrough command), one, or a flush and a write. A
// write that flushes first is both, in this order; neither may be lost.
struct EventRequests {
  size_t count = 0;
  std::array<trace::TraceRecord, 2> records;
};

inline EventRequests RequestsOf(const RequestFlags& flags, const trace::TraceRecord& place) {
  using trace::TraceOp;
  EventRequests requests;
  if (flags.preflush) {
    trace::TraceRecord& flush = requests.records[requests.count++];
    flush.time_ns = place.time_ns;
    flush.device = place.device;
    flush.op = TraceOp::kFlush;
  }
  if (place.bytes == 0 || !(flags.read || flags.write || flags.discard)) return requests;
  trace::TraceRecord& request = requests.records[requests.count++];
  request = place;
  request.op = flags.discard ? TraceOp::kTrim : flags.write ? TraceOp::kWrite : TraceOp::kRead;
  request.fua = flags.fua && flags.write;
  return requests;
}

}  // namespace ebb::env
