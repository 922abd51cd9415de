// The loads under which live node and twin are compared, each with the node it is sent to.
//
// A load is a list of requests with times, at most a few seconds long, that repeats; the live node
// gets it request by request and the twin as a RequestStream of the very same records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/trace/trace_format.h"
#include "base/units.h"
#include "env/twin/request_stream.h"

namespace ebb::fidelity_bench {

// One disk group at bench scale.
struct NodeShape {
  uint64_t volume_bytes = 192 * kMiB;
  uint64_t cache_bytes = 64 * kMiB;
  std::string cache_model = "nvme";  // a service model's name
  double cache_speed = 0.25;
  uint64_t capacity_bytes = 320 * kMiB;  // of each
  std::string capacity_model = "sata-ssd";
  double capacity_speed = 0.25;
  int capacity_count = 2;
  // What the read cache may take is a tenth of it.
  uint64_t host_memory_bytes = 240 * kMiB;
};

struct Workload {
  std::string name;
  std::string what;  // one line for the report
  bool recorded = false;
  NodeShape shape = {};
  std::vector<trace::TraceRecord> records = {};
  // By record: its fingerprints stand for themselves however often the load is repeated, because
  // they occur twice in it; others are new each time.
  std::vector<std::vector<bool>> keeps_content = {};
  uint64_t duration_ns = 0;

  twin::RequestStream Stream() const;
  // Some of what it writes, or of what it finds when it writes nothing; whole units of 32 KiB.
  AlignedBuffer ContentSample() const;
};

// Blocks of the volume as they are before the load: each other content, that shrinks to this.
inline constexpr uint64_t kPrefillLevel = 9;  // of trace_content.h: to (2 * 9 + 1) / 32
inline constexpr double kPrefillPerMille = 594;

// All loads, `seconds` long. Recorded ones come from `trace_dir`; those that are not there are
// named in `skipped` and left out.
absl::StatusOr<std::vector<Workload>> MakeWorkloads(const std::string& trace_dir, double seconds,
                                                    std::vector<std::string>& skipped);

}  // namespace ebb::fidelity_bench
