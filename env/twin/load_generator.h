// LoadGenerator: a synthetic load for the twin, from a dozen numbers.
//
// Same spec, same stream. Blocks are drawn by a Zipf law over the working set, whose ranks are
// scattered over the volume; a share of the requests continues one of a few sequential streams.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "env/twin/request_stream.h"

namespace ebb::twin {

struct LoadSpec {
  double seconds = 60;
  double ops_per_s = 10'000;
  double read_share = 0.7;
  uint32_t read_bytes = 4096;
  uint32_t write_bytes = 4096;
  uint64_t working_set_bytes = 4 * kGiB;
  double zipf_skew = 0.9;       // 0: uniform
  double sequential_share = 0;  // of requests, by four streams over the working set
  double duplicate_share = 0;   // of written blocks: content that was written before
  double compressed_per_mille = 600;
  double flushes_per_write = 0;
  // Requests come in bursts: all of them within `burst_duty` of each period.
  double burst_duty = 1;
  double burst_period_s = 1;
  uint64_t seed = 1;
};

// InvalidArgument when a number is out of range or the working set is larger than the volume.
absl::StatusOr<RequestStream> GenerateLoad(const LoadSpec& spec, uint64_t volume_bytes);

}  // namespace ebb::twin
