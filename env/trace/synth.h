// Synthesised loads: the parameters of IOBlazer and more, as an endless or bounded TraceSource.
//
// Same options, same stream. Requests come in bursts with gaps between; within a
// burst `outstanding` requests come at once, and the next ones `service_ns` later, as if a device
// had answered. A phase with a rate has arrivals by chance (Poisson) instead, all of them within
// `duty` of each period. Phases follow each other in a circle; positions and contents go on across
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

using SynthSizes = std::vector<std::pair<uint64_t, double>>;  // bytes, weight

struct SynthPhase {
  uint64_t duration_ns = 60'000'000'000;
  SynthSizes sizes = SynthSizes(1, {4096, 1});
  SynthSizes write_sizes;  // empty: those of the reads
  uint64_t burst_requests = 1;
  uint64_t gap_ns = 1'000'000;  // from a burst's last request to the next burst
  uint64_t outstanding = 1;
  uint64_t service_ns = 100'000;
  double ops_per_s = 0;  // above 0: by chance, at this rate; the four above count for nothing
  double duty = 1;       // of a rate
  uint64_t period_ns = 1'000'000'000;
  double read_share = 0.7;
  double random_share = 1;  // else a request begins where the last one ended ...
  uint64_t streams = 0;     // ... or goes on with one of so many streams
  uint64_t offset_bytes = 0;
  uint64_t working_set_bytes = 1 << 30;
  double zipf_skew = 0;           // of places; 0: uniform
  double drift_per_s = 0;         // share of the working set by which the hot places move on
  double duplicate_share = 0;     // of written 4 KiB blocks: as one of the last written ones
  double compressible_share = 0;  // of written 4 KiB blocks: shrink to a third, others not at all
  uint64_t flush_every = 0;       // writes; 0: no flushes
};

struct SynthOptions {
  uint64_t seed = 1;
  uint64_t requests_max = 0;  // 0: no bound
  uint64_t duration_ns = 0;   // 0: once through the phases, unless requests_max says more
  std::vector<SynthPhase> phases = {SynthPhase{}};
};

// InvalidArgument names what is impossible.
absl::StatusOr<std::unique_ptr<TraceSource>> MakeSynthSource(const SynthOptions& options);

// The parameters of a phase by name, as the command line and presets set them.
struct SynthParameter {
  std::string_view name;
  std::string_view help;
  absl::Status (*set)(std::string_view value, SynthPhase* phase);
};
std::span<const SynthParameter> SynthParameters();
// Sets one; InvalidArgument for an unknown name (with the nearest one) or an impossible value.
absl::Status SetSynthParameter(std::string_view name, std::string_view value, SynthPhase* phase);
// "read=0.5,gap=2ms": several.
absl::Status SetSynthParameters(std::string_view list, SynthPhase* phase);

struct SynthPreset {
  std::string_view name;
  std::string_view help;
  std::string_view parameters;  // for SetSynthParameters
};
std::span<const SynthPreset> SynthPresets();

}  // namespace ebb::env
