// TripWire judges a candidate while its lease runs: metrics snapshots in, a decision out.
//
// A pure state machine, without clock, thread or I/O: the node's watchdog feeds it every 100 ms.
// Only what happened since the lease began counts, so a candidate never answers for its
// predecessor. Latencies are judged over the last 500 ms, or longer (5 s at most) while fewer than
// 20 requests lie in them; a p99 trips only with 3 requests beyond the limit, so that one outlier
// among few requests does not. Log fill and throughput are judged over the last second, throughput
// only when requests were waiting all through it: an idle client is no trip.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/histogram.h"

namespace ebb::storage {

// Unset ones are not checked.
struct TripConditions {
  std::optional<double> read_p99_us_max = std::nullopt;
  std::optional<double> write_p99_us_max = std::nullopt;
  std::optional<uint64_t> errors_max = std::nullopt;        // since the lease began
  std::optional<double> log_fill_per_s_max = std::nullopt;  // share of the write space a second
  std::optional<double> throughput_ops_min = std::nullopt;  // operations a second

  bool empty() const {
    return !read_p99_us_max && !write_p99_us_max && !errors_max && !log_fill_per_s_max &&
           !throughput_ops_min;
  }
};

// A snapshot; everything but dirty_share is cumulative.
struct TripSample {
  uint64_t now_ns = 0;  // monotonic
  LatencyHistogram read;
  LatencyHistogram write;
  uint64_t ops = 0;  // of all kinds
  uint64_t errors = 0;
  uint64_t in_flight_ns_sum = 0;  // integral of requests in flight over time
  double dirty_share = 0;
};

struct TripReading {
  std::string condition;  // "read_p99_us_max"
  double value = 0;
  double limit = 0;

  // "read_p99_us_max is 5120, the limit 3000".
  std::string Text() const;
};

class TripWire {
 public:
  TripWire(const TripConditions& conditions, TripSample start);

  // The first condition that holds at `sample`, or nullopt. Samples come in order of time.
  std::optional<TripReading> Observe(TripSample sample);

 private:
  // The youngest earlier sample at least `age_ns` before the latest one; nullptr when the lease is
  // younger than that.
  const TripSample* Before(uint64_t age_ns) const;
  std::optional<TripReading> JudgeLatency(LatencyHistogram TripSample::*kind,
                                          const std::optional<double>& limit_us,
                                          const char* condition) const;
  std::optional<TripReading> JudgeErrors() const;
  std::optional<TripReading> JudgeLogFill() const;
  std::optional<TripReading> JudgeThroughput() const;
  bool RequestsWaitedSince(const TripSample& begin) const;

  TripConditions conditions_;
  uint64_t errors_at_start_;
  std::deque<TripSample> samples_;  // ascending, 5 s and a little
};

}  // namespace ebb::storage
