// SampledLoad makes a load of what a node tells of its requests (stream.get).
//
// A busy node tells only the requests that begin in a share of its regions, chosen by a hash
// (storage-backend/control/stream_sampler.h). They are the whole load of a node as many times
// smaller: the sampled regions of the volume move together, in their order, and time passes as many
// times faster, as in RequestStream::Sample. Where the share changed on the way, everything is
// thinned to the smallest one. What runs out of a sampled region goes on in the next one.
//
// The node looks at the first block of some writes only; the others of a write follow from it, and
// writes that were not looked at are like one that was, drawn by chance (same entries, same draws).
// Duplicates between a sampled region and others cannot be seen, so they are counted too low.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "env/node/stream_descriptor.h"
#include "env/twin/request_stream.h"

namespace ebb::twin {

class SampledLoad {
 public:
  explicit SampledLoad(uint64_t volume_bytes) : volume_bytes_(volume_bytes) {}

  // In any order of time; `sample_rate` is theirs. Each is kept, in some 60 bytes.
  void Add(std::span<const env::StreamEntry> entries, double sample_rate);

  // Of the node's clock; meaningless while empty.
  uint64_t first_ns() const { return first_ns_; }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // One part in so many of the regions is in the load that Build makes.
  uint32_t divisor() const { return uint32_t{1} << shift_; }
  // Reads and writes that began in [begin_ns, end_ns), sampled or not, as the sample tells it.
  double EstimateOps(uint64_t begin_ns, uint64_t end_ns) const;

  // The requests that began in [begin_ns, end_ns). `true_share`: how many there really were for
  // each that the sample tells of; where everything was told it does not matter. InvalidArgument
  // when there are none.
  absl::StatusOr<RequestStream> Build(uint64_t begin_ns, uint64_t end_ns, double true_share) const;

 private:
  struct Held {
    env::StreamEntry entry;
    uint32_t shift = 0;
  };

  // Those of Build, thinned, in order of time; `requests` gets how many they stand for.
  std::vector<env::StreamEntry> Choose(uint64_t begin_ns, uint64_t end_ns, double true_share,
                                       double& requests) const;

  const uint64_t volume_bytes_;
  std::vector<Held> entries_;
  uint32_t shift_ = 0;  // the largest so far
  uint64_t first_ns_ = UINT64_MAX;
};

}  // namespace ebb::twin
