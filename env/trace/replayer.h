// Replayer sends a recorded trace to a block target, as it was timed or as fast as it answers.
//
// Open loop: every request at its recorded time divided by `speed`; a request that finds `depth`
// others in flight waits, and the delay is reported as drift, not hidden. Closed loop: always
// `depth` in flight. Written data are made from the fingerprints (base/trace/trace_content.h), so
// duplicates and compressibility are the recorded ones. The trace is streamed: memory does not grow
// with its length. The replay runs on the caller's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/trace/trace_format.h"
#include "env/trace/block_target.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

struct ReplayOptions {
  enum class Pace : uint8_t { kOpenLoop, kClosedLoop };

  std::string format = {};  // of the trace; empty: recognised, see OpenTrace
  TraceOptions reading = {};
  Pace pace = Pace::kOpenLoop;
  double speed = 1;   // open loop: 2 replays an hour in half of one
  size_t depth = 64;  // most requests in flight
  // A target smaller than the trace is refused unless set; then offsets wrap around its size.
  bool fold_offsets = false;
  // 0: the trace once, or without end. Else it is repeated, or cut short, to run this long.
  uint64_t duration_ns = 0;
  bool repeat = false;                      // without end; `stop` or `duration_ns` ends it
  const std::atomic<bool>* stop = nullptr;  // set: ends the replay when it becomes true
  // Called now and then: how far it is, in [0, 1] (negative when only `stop` ends it), and how many
  // requests were sent.
  std::function<void(double share, uint64_t requests)> on_progress = {};
};

struct ReplayReport {
  struct Kind {
    uint64_t requests = 0;
    uint64_t bytes = 0;
    uint64_t errors = 0;
    uint64_t skipped = 0;      // the target cannot do this kind
    LatencyHistogram latency;  // from sending to the answer
  };

  std::map<trace::TraceOp, Kind> kinds;
  uint64_t passes = 0;           // whole ones
  uint64_t folded = 0;           // requests moved by fold_offsets
  uint64_t planned_span_ns = 0;  // open loop: from the first to the last request as recorded
  uint64_t actual_span_ns = 0;   // and as sent
  LatencyHistogram drift;        // open loop: how late each request was sent
  uint64_t depth_limited = 0;    // open loop: requests that were late because of `depth`
  std::string first_error;       // of a request; empty when none failed

  uint64_t requests() const;
  uint64_t errors() const;
  // (actual - planned) / planned; 0 for a closed loop.
  double SpanError() const;
  // Several lines for people.
  std::string ToText() const;
};

// Replays the trace at `trace_path` against `target`. Errors: those of reading the trace (with the
// chunk's number), OutOfRange when the target is smaller than the trace needs (both sizes said),
// InvalidArgument for impossible options, Unavailable when the target goes away. A failed request
// is none: it is counted in the report.
absl::StatusOr<ReplayReport> ReplayTrace(const std::string& trace_path, BlockTarget& target,
                                         const ReplayOptions& options, Clock& clock = RealClock());

}  // namespace ebb::env
