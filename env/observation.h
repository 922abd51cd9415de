// What one measurement window of an environment showed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/histogram.h"
#include "env/knob_space.h"

namespace ebb::env {

// One kind of request in one window.
struct OpWindow {
  uint64_t ops = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  double p50_ns = 0;  // 0 when ops == 0
  double p99_ns = 0;
  double mean_ns = 0;
  LatencyHistogram latency;
};

struct WindowMetrics {
  double seconds = 0;
  OpWindow read;
  OpWindow write;
  OpWindow flush;
  double mean_in_flight = 0;  // requests waiting or in service, averaged over the window
  // Gauges at the window's end.
  uint64_t dirty_bytes = 0;
  uint64_t clean_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t cache_space_bytes = 0;
  double dirty_share = 0;
  bool draining_by_operator = false;
  uint64_t logical_bytes = 0;
  uint64_t unique_bytes = 0;
  uint64_t physical_bytes = 0;
  // Differences over the window.
  double read_hit_share = 0;  // blocks served without the capacity tier, of mapped blocks read
  uint64_t destaged_bytes = 0;
  uint64_t capacity_written_bytes = 0;
  double throttle_seconds = 0;
  double cpu_seconds = 0;
};

// Features of the load itself. Nothing here may depend on the knobs (property-tested).
//
// Clients either keep their own pace (the rate describes them, and how many requests wait follows
// the store) or wait for completions (their number in flight describes them, and the rate follows
// the store). So only one of the two is given: the other is 0, as a shift detector would take every
// gain of the tuner for a shift of the load otherwise.
struct WorkloadDescriptor {
  // Requests of up to 4, 16, 64 and 256 KiB, and larger ones.
  static constexpr size_t kSizeClasses = 5;
  // Sizes of 1 MiB, 4 MiB, 16 MiB, ... 1 TiB.
  static constexpr size_t kCurvePoints = 11;
  static constexpr uint64_t CurveBytes(size_t point) { return uint64_t{1} << (20 + 2 * point); }

  double offered_ops_per_s = 0;  // 0 when the clients wait for completions (closed loop)
  double offered_bytes_per_s = 0;
  double read_share = 0;  // of operations
  double mean_read_bytes = 0;
  double mean_write_bytes = 0;
  double sequential_share = 0;   // requests that start where one of the last 32 streams ended
  double mean_in_flight = 0;     // concurrency of the clients; 0 when they keep their own pace
  double working_set_bytes = 0;  // distinct bytes they choose from, by the last 8192 requests
  double burstiness = 0;         // squared coefficient of variation of arrivals over 10 ms slots;
                                 // 0 in a closed loop
  std::array<double, kSizeClasses> read_sizes{};   // shares of the reads
  std::array<double, kSizeClasses> write_sizes{};  // shares of the writes
  // The share of blocks read and written that an LRU cache of each size would miss; 1 where nothing
  // was seen. Over the last million or so.
  std::array<double, kCurvePoints> miss_ratios = Filled(1);
  // The share of blocks written that overwrite one of the last written ones, so many bytes of
  // distinct blocks ago at most.
  std::array<double, kCurvePoints> overwrite_shares{};
  // Of the writes whose content was looked at: those whose first block had been written before, and
  // what LZ4 takes off the bytes. 0 where none was.
  double duplicate_share = 0;
  double compressible_share = 0;

 private:
  static constexpr std::array<double, kCurvePoints> Filled(double value) {
    std::array<double, kCurvePoints> all{};
    for (double& one : all) one = value;
    return all;
  }
};

struct Observation {
  uint64_t sequence = 0;  // counts windows of this attachment
  int64_t wall_ms = 0;    // end of the window
  uint64_t monotonic_ns = 0;
  Setting setting;  // in force during the window
  uint64_t setting_version = 0;
  bool setting_changed = false;  // changed inside the window: its numbers are a mixture
  WindowMetrics metrics;
  WorkloadDescriptor descriptor;
  // A window that must not be used: stale, impossible or contradictory numbers; why, for people.
  bool valid = true;
  std::string void_reason;
};

}  // namespace ebb::env
