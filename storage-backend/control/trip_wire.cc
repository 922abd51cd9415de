#include "storage-backend/control/trip_wire.h"

#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kLatencyWindowNs = 500 * kNsPerMs;
constexpr uint64_t kLatencyWindowNsMax = 5 * kNsPerS;
constexpr uint64_t kLatencyRequestsWanted = 20;
constexpr uint64_t kSlowRequestsMin = 3;
constexpr uint64_t kRateWindowNs = kNsPerS;
// Requests in flight, averaged between two samples, from which on they count as waiting: a client
// that always has one outstanding shows nearly 1.
constexpr double kWaitingInFlightMin = 0.5;

double SecondsBetween(const TripSample& earlier, const TripSample& later) {
  return static_cast<double>(later.now_ns - earlier.now_ns) / static_cast<double>(kNsPerS);
}

uint64_t CountAbove(const LatencyHistogram& histogram, double limit_ns) {
  uint64_t above = 0;
  for (const auto& [bucket, count] : histogram.Sparse()) {
    if (static_cast<double>(LatencyHistogram::BucketHighNs(bucket)) > limit_ns) above += count;
  }
  return above;
}

}  // namespace

std::string TripReading::Text() const {
  return fmt::format("{} is {:.6g}, the limit {:.6g}", condition, value, limit);
}

TripWire::TripWire(const TripConditions& conditions, TripSample start)
    : conditions_(conditions), errors_at_start_(start.errors) {
  samples_.push_back(std::move(start));
}

std::optional<TripReading> TripWire::Observe(TripSample sample) {
  EBB_CHECK(sample.now_ns >= samples_.back().now_ns);
  if (sample.now_ns == samples_.back().now_ns) return std::nullopt;
  samples_.push_back(std::move(sample));
  const uint64_t now_ns = samples_.back().now_ns;
  while (samples_.size() > 2 && now_ns - samples_[1].now_ns >= kLatencyWindowNsMax) {
    samples_.pop_front();
  }

  if (auto trip = JudgeErrors()) return trip;
  if (auto trip = JudgeLatency(&TripSample::read, conditions_.read_p99_us_max, "read_p99_us_max")) {
    return trip;
  }
  if (auto trip =
          JudgeLatency(&TripSample::write, conditions_.write_p99_us_max, "write_p99_us_max")) {
    return trip;
  }
  if (auto trip = JudgeLogFill()) return trip;
  return JudgeThroughput();
}

const TripSample* TripWire::Before(uint64_t age_ns) const {
  const uint64_t now_ns = samples_.back().now_ns;
  for (auto sample = samples_.rbegin(); sample != samples_.rend(); ++sample) {
    if (now_ns - sample->now_ns >= age_ns) return &*sample;
  }
  return nullptr;
}

std::optional<TripReading> TripWire::JudgeErrors() const {
  if (!conditions_.errors_max) return std::nullopt;
  const uint64_t errors = samples_.back().errors - errors_at_start_;
  if (errors <= *conditions_.errors_max) return std::nullopt;
  return TripReading{"errors_max", static_cast<double>(errors),
                     static_cast<double>(*conditions_.errors_max)};
}

std::optional<TripReading> TripWire::JudgeLatency(LatencyHistogram TripSample::*kind,
                                                  const std::optional<double>& limit_us,
                                                  const char* condition) const {
  if (!limit_us) return std::nullopt;
  const TripSample& latest = samples_.back();
  LatencyHistogram window;
  for (auto begin = samples_.rbegin() + 1; begin != samples_.rend(); ++begin) {
    const bool long_enough = latest.now_ns - begin->now_ns >= kLatencyWindowNs;
    if (!long_enough && begin + 1 != samples_.rend()) continue;
    window = (latest.*kind).Since((*begin).*kind);
    if (window.count() >= kLatencyRequestsWanted) break;
  }
  const double p99_us = window.QuantileNs(0.99) / static_cast<double>(kNsPerUs);
  if (p99_us <= *limit_us) return std::nullopt;
  if (CountAbove(window, *limit_us * static_cast<double>(kNsPerUs)) < kSlowRequestsMin) {
    return std::nullopt;
  }
  return TripReading{condition, p99_us, *limit_us};
}

std::optional<TripReading> TripWire::JudgeLogFill() const {
  const TripSample* begin = conditions_.log_fill_per_s_max ? Before(kRateWindowNs) : nullptr;
  if (begin == nullptr) return std::nullopt;
  const TripSample& latest = samples_.back();
  const double fill_per_s =
      (latest.dirty_share - begin->dirty_share) / SecondsBetween(*begin, latest);
  if (fill_per_s <= *conditions_.log_fill_per_s_max) return std::nullopt;
  return TripReading{"log_fill_per_s_max", fill_per_s, *conditions_.log_fill_per_s_max};
}

std::optional<TripReading> TripWire::JudgeThroughput() const {
  const TripSample* begin = conditions_.throughput_ops_min ? Before(kRateWindowNs) : nullptr;
  if (begin == nullptr || !RequestsWaitedSince(*begin)) return std::nullopt;
  const TripSample& latest = samples_.back();
  const double ops_per_s =
      static_cast<double>(latest.ops - begin->ops) / SecondsBetween(*begin, latest);
  if (ops_per_s >= *conditions_.throughput_ops_min) return std::nullopt;
  return TripReading{"throughput_ops_min", ops_per_s, *conditions_.throughput_ops_min};
}

bool TripWire::RequestsWaitedSince(const TripSample& begin) const {
  for (size_t i = samples_.size() - 1; i > 0 && samples_[i].now_ns > begin.now_ns; --i) {
    const auto in_flight_ns =
        static_cast<double>(samples_[i].in_flight_ns_sum - samples_[i - 1].in_flight_ns_sum);
    const auto interval_ns = static_cast<double>(samples_[i].now_ns - samples_[i - 1].now_ns);
    if (in_flight_ns < kWaitingInFlightMin * interval_ns) return false;
  }
  return true;
}

}  // namespace ebb::storage
