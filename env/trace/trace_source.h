// TraceSource: the requests of a trace of any format, one after the other, in constant memory.
//
// What every format delivers: time since the first request in nanoseconds, never running backwards
// (a stamp before its predecessor's is raised to it and counted); offset and length in bytes; the
// device as a number. A source says in its traits what its format cannot know.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"

namespace ebb::env {

struct TraceTraits {
  std::string format;        // its name in the table of formats
  bool has_times = true;     // else time_ns is 0 throughout: only the order is known
  bool has_ops = true;       // else every request is called a read
  bool has_content = false;  // fingerprints of what is written (and, for FIU, of what is read)
  bool has_compressibility = false;  // and how well that shrinks
  bool has_latency = false;
  uint64_t volume_bytes = 0;  // size of the recorded device; 0: not known
};

// A line or record that could not be understood.
struct BrokenRecord {
  uint64_t line = 0;    // from 1; of binary formats the number of the record, from 1
  uint64_t offset = 0;  // of its first byte in the decompressed file
  std::string reason = {};
};

struct TraceCounts {
  uint64_t records = 0;       // handed out
  uint64_t other_events = 0;  // understood, and not requests of the kind asked for: completions ...
  uint64_t messages = 0;      // no events at all, and rightly so: headers, summaries, empty lines
  uint64_t broken = 0;
  uint64_t back_steps = 0;            // stamps before their predecessor's
  std::vector<BrokenRecord> samples;  // the first broken ones
  uint64_t first_stamp_ns = 0;        // of the first record, on the trace's own clock

  uint64_t entries() const { return records + other_events + messages + broken; }
};

class TraceSource {
 public:
  virtual ~TraceSource() = default;

  // Fills `record` with the next request; false at the end. A record's vector is used again: keep
  // one TraceRecord for the whole loop. Errors are final: DataLoss (with the place) when the file
  // is damaged, InvalidArgument when more entries are broken than allowed.
  virtual absl::StatusOr<bool> Next(trace::TraceRecord* record) = 0;
  virtual const TraceTraits& traits() const = 0;
  // Complete once Next has returned false.
  virtual const TraceCounts& counts() const = 0;
  // How far reading is, in [0, 1]; negative when that is not known (a pipe).
  virtual double progress() const = 0;
  // What should be known about how the file was understood; empty: nothing special.
  virtual std::string warning() const { return {}; }
};

struct TraceOptions {
  // The largest share of broken entries that is put up with; more is an error, at the end or as
  // soon as there are a thousand.
  double broken_share_max = 0.01;
  // fio iolog v2: `wait` is microseconds since the wait before, as fio's HOWTO says, or
  // milliseconds since the start, as its code does.
  bool iolog_wait_is_ms_since_start = false;
};

// Opens the trace at `path` ("-": standard input), compressed or not. `format` is a name of
// TraceFormats(), or empty: then the format must be certain from the file's first bytes, else
// InvalidArgument names the likely ones. A binary blktrace is one file per CPU: `path` is any of
// them or their common beginning, and all are merged.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenTrace(const std::string& path,
                                                       std::string_view format = {},
                                                       const TraceOptions& options = {});

struct TraceFormatInfo {
  std::string_view name;
  std::string_view help;  // columns, units and polarity, in one line
};
// All formats that OpenTrace knows, in a stable order.
std::vector<TraceFormatInfo> TraceFormats();

}  // namespace ebb::env
