// WindowResult: what a window of the simulator showed; windows add up.
#pragma once

#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "env/observation.h"
#include "env/twin/request_stream.h"

namespace ebb::twin {

// One request as the front end saw it.
struct SeenRequest {
  uint64_t time_ns = 0;
  RequestKind kind = RequestKind::kRead;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint64_t service_ns = 0;
  uint32_t record = 0;  // of the load: where it begins
};

struct WindowResult {
  env::WindowMetrics metrics;  // as the node counts: without socket and waiting for a worker
  LatencyHistogram client;     // what clients saw, reads and writes
  double log_fill = 0;         // of the write space, at the end
  uint64_t read_blocks_dram = 0;
  uint64_t read_blocks_cache = 0;
  uint64_t read_blocks_capacity = 0;
  uint64_t read_blocks_unmapped = 0;
  uint64_t readahead_blocks = 0;
  uint64_t copied_blocks = 0;
  uint64_t coalesced_blocks = 0;  // overwritten in the log before they were destaged
  uint64_t destage_batches = 0;
  uint64_t compaction_steps = 0;
  uint64_t late_ns = 0;  // how far the clients were behind the load's times at the end
  std::vector<SeenRequest> stream;
};

// Adds `part`, which follows `sum` in time.
void Merge(const WindowResult& part, WindowResult& sum);
// Fills in what follows from the histograms and the counts.
void Derive(WindowResult& window);

}  // namespace ebb::twin
