// Loads for the twin: a recorded trace, or a synthesised one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "env/trace/synth.h"
#include "env/twin/request_stream.h"

namespace ebb::twin {

struct TraceLoadOptions {
  std::string format;         // empty: found out, where that is certain
  uint64_t volume_bytes = 0;  // 0: as the trace says, or as far as its requests reach
  double speed = 1;           // its times pass so many times faster
  uint64_t records_max = 0;   // 0: all of them
};

// Reads the file twice when nobody says how large the volume is. InvalidArgument when the trace has
// no requests, or (`needs_times`) only their order.
absl::StatusOr<RequestStream> LoadTrace(const std::string& path, const TraceLoadOptions& options,
                                        bool needs_times);

// From the first phase to the end that the options give. InvalidArgument when they are impossible
// or a phase does not fit the volume.
absl::StatusOr<RequestStream> SynthesiseLoad(const env::SynthOptions& options,
                                             uint64_t volume_bytes);

}  // namespace ebb::twin
