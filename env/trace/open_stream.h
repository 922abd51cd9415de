// Opening a trace that is not a file: what OpenTrace, the tests and the fuzzers share.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "env/trace/byte_stream.h"
#include "env/trace/formats/format_table.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

// InvalidArgument names the formats that there are.
absl::StatusOr<const TraceFormat*> FindFormat(std::string_view name);

// The format of the stream, none of which is consumed, where its first bytes make that certain;
// else InvalidArgument names the likely ones.
absl::StatusOr<const TraceFormat*> DetectFormat(ByteStream& stream);

// Several streams only for blktrace.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenStreams(
    std::vector<std::unique_ptr<ByteStream>> streams, const TraceFormat& format,
    const TraceOptions& options);

}  // namespace ebb::env
