// TraceProfile: what a trace holds, found in one pass and bounded memory.
//
// Shares and sizes are of the reads and writes; flushes, trims and zeroes are only counted. Blocks
// are the aligned 4 KiB pieces of each device. Up to kExactBlocks distinct ones the figures are
// exact, beyond that estimates (block_sample.h). Without times or operations in the trace (see
// TraceTraits) what follows from them is empty.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "env/trace/miss_ratio_curve.h"
#include "env/trace/trace_source.h"

namespace ebb::env {

// Load in windows of one length, from the first request's to the last one's; windows begin at
// multiples of their length on the trace's own clock.
struct BurstProfile {
  uint64_t window_ns = 0;
  uint64_t requests_max = 0;      // in one window
  double idle_share = 0;          // windows without any
  double variance_over_mean = 0;  // of requests in a window: 1 for independent arrivals
};

struct TraceProfile {
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t flushes = 0;
  uint64_t trims = 0;
  uint64_t zeroes = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t trim_bytes = 0;
  uint64_t zero_bytes = 0;
  uint64_t fua_requests = 0;
  uint64_t needed_bytes = 0;  // the highest byte touched on any device
  uint64_t devices = 0;

  std::optional<double> span_s;  // from the first to the last read or write
  std::optional<double> read_share;
  std::array<uint64_t, 3> bytes_p50_p90_p99{};
  std::vector<std::pair<uint64_t, double>> top_sizes;  // bytes, share; the three most frequent

  double footprint_blocks = 0;          // distinct blocks
  bool blocks_exact = true;             // else estimated
  double reuse_share = 0;               // accesses to blocks that came before
  std::optional<double> rewrite_share;  // written blocks that were written before
  double sequential_share = 0;          // requests that begin where the device's last one ended
  double unaligned_share = 0;           // requests not of whole blocks

  std::optional<double> mean_iops;
  std::vector<BurstProfile> bursts;  // windows of 10 ms, 100 ms, 1 s, 10 s
  std::vector<MissRatioCurve::Point> miss_ratios;

  // Of the written blocks whose content the trace tells.
  uint64_t content_blocks = 0;
  double distinct_contents = 0;
  double duplicate_share = 0;  // content that came before, zeroes included
  double zero_share = 0;
  std::optional<double> compressed_share;  // where the trace tells it: LZ4's output over its input

  // The busiest second over the mean one; a span below a second counts as one. Empty without times.
  std::optional<double> PeakOverMean() const;
};

class TraceProfiler {
 public:
  static constexpr size_t kExactBlocks = 2 << 20;

  explicit TraceProfiler(const TraceTraits& traits);
  ~TraceProfiler();

  // `clock_ns`: the trace's own clock at time 0 of the records (TraceCounts::first_stamp_ns).
  void Add(const trace::TraceRecord& record, uint64_t clock_ns = 0);
  TraceProfile Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads `source` to its end. `on_progress`, if any, is called now and then.
absl::StatusOr<TraceProfile> ProfileTrace(
    TraceSource& source, const std::function<void(const TraceSource&)>& on_progress = {});

}  // namespace ebb::env
