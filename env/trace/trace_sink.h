// TraceSink: where converted and synthesised records go, a file of Ebb's own format or a fio iolog.
//
// Memory is constant. What a format cannot hold is changed to the nearest that it can, and counted:
// see SinkCounts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace/trace_format.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

struct SinkCounts {
  uint64_t records = 0;       // taken
  uint64_t cut = 0;           // longer than one request may be there: written as several
  uint64_t left_out = 0;      // no bytes, and no flush
  uint64_t changed = 0;       // iolog: zeroes became writes, FUA a datasync after the write
  uint64_t needed_bytes = 0;  // the highest byte of any device
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;

  // Times must not run backwards.
  virtual absl::Status Append(const trace::TraceRecord& record) = 0;
  // Finishes the file; nothing may follow. Without it the file is not whole.
  virtual absl::Status Close() = 0;
  virtual const SinkCounts& counts() const = 0;
};

struct SinkOptions {
  std::string note = {};          // ebbt: for people, in the header
  uint64_t volume_bytes = 0;      // ebbt: size of the device, in the header
  std::string file_name = "ebb";  // iolog: the file in it; device N of several is NAME.N
};

// `format` is "ebbt" or "iolog" (version 3). Creates or replaces the file at `path`.
absl::StatusOr<std::unique_ptr<TraceSink>> OpenTraceSink(const std::string& path,
                                                         std::string_view format,
                                                         const SinkOptions& options);

// Copies all of `source` and closes `sink`. `on_progress`, if any, is called now and then.
absl::Status CopyTrace(TraceSource& source, TraceSink& sink,
                       const std::function<void(const TraceSource&)>& on_progress = {});

}  // namespace ebb::env
