// StreamRecorder writes what a node tells of its requests (stream.get) into a trace file.
//
// A node keeps and tells all requests up to some thousand a second and a sample of the volume's
// regions above that; what was sampled, and at which rate, stands in StreamCounts. Requests come in
// the order in which they ended; the file has them in the order in which they began.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/trace/trace_format.h"
#include "base/trace/trace_writer.h"
#include "env/node/node_codec.h"

namespace ebb::cli {

struct StreamCounts {
  uint64_t records = 0;
  uint64_t dropped = 0;        // gone from the node's memory before they were asked for
  double sample_rate_min = 1;  // the smallest share of the regions that was told
  uint64_t late = 0;           // began before what was written already: their time was raised
};

class StreamRecorder {
 public:
  explicit StreamRecorder(std::unique_ptr<trace::TraceWriter> writer)
      : writer_(std::move(writer)) {}

  absl::Status Take(const env::StreamSlice& slice);
  // Writes what is left and finishes the file.
  absl::Status Close();

  const StreamCounts& counts() const { return counts_; }

 private:
  absl::Status WriteUpTo(uint64_t time_ns);

  std::unique_ptr<trace::TraceWriter> writer_;
  std::multimap<uint64_t, trace::TraceRecord> waiting_;  // by the node's clock
  bool begun_ = false;
  uint64_t begin_ns_ = 0;
  uint64_t written_ns_ = 0;  // relative
  StreamCounts counts_;
};

}  // namespace ebb::cli
