#include "engine/loop/window_log.h"

#include <limits>

namespace ebb::engine {
namespace {

constexpr double kBytesPerMib = 1024.0 * 1024.0;
constexpr double kNsPerMicrosecond = 1000;

double OrNan(bool known, double value) {
  return known ? value : std::numeric_limits<double>::quiet_NaN();
}

void AddOp(const env::OpWindow& window, OpTotals& totals) {
  totals.ops += window.ops;
  totals.bytes += window.bytes;
  totals.errors += window.errors;
  totals.latency.Merge(window.latency);
}

}  // namespace

void WindowLog::Add(int64_t window, env::Observation observation, bool index_known) {
  observation.metrics.read.latency = {};
  observation.metrics.write.latency = {};
  observation.metrics.flush.latency = {};
  entries_.push_back({window, std::move(observation), index_known});
  if (entries_.size() > windows_max_) entries_.pop_front();
}

std::vector<LogSample> WindowLog::Samples(const BaselineModel& baseline, const Goal& goal,
                                          int64_t oldest_window) const {
  std::vector<LogSample> samples;
  for (const Entry& entry : entries_) {
    if (entry.window < oldest_window) continue;
    const IndexReading reading = EvaluateIndex(baseline, goal, entry.observation);
    if (reading.known) samples.push_back({entry.window, false, reading.log_ratio});
  }
  return samples;
}

size_t WindowLog::CountKnown(int64_t oldest_window) const {
  size_t count = 0;
  for (const Entry& entry : entries_) {
    if (entry.index_known && entry.window >= oldest_window) ++count;
  }
  return count;
}

std::vector<env::Observation> WindowLog::Observations(int64_t oldest_window) const {
  std::vector<env::Observation> observations;
  for (const Entry& entry : entries_) {
    if (entry.window >= oldest_window) observations.push_back(entry.observation);
  }
  return observations;
}

SeriesPoint MakeSeriesPoint(const env::Observation& observation, const IndexReading& reading,
                            bool on_trial, bool holdback) {
  const env::WindowMetrics& m = observation.metrics;
  const bool timed = observation.valid && m.seconds > 0;
  const double seconds = timed ? m.seconds : 1;
  const bool reads = timed && m.read.ops > 0;
  const bool writes = timed && m.write.ops > 0;
  SeriesPoint point;
  point.wall_ms = observation.wall_ms;
  point.index = reading.value();
  point.read_p50_us = OrNan(reads, m.read.p50_ns / kNsPerMicrosecond);
  point.read_p99_us = OrNan(reads, m.read.p99_ns / kNsPerMicrosecond);
  point.write_p50_us = OrNan(writes, m.write.p50_ns / kNsPerMicrosecond);
  point.write_p99_us = OrNan(writes, m.write.p99_ns / kNsPerMicrosecond);
  point.read_iops = OrNan(timed, static_cast<double>(m.read.ops) / seconds);
  point.write_iops = OrNan(timed, static_cast<double>(m.write.ops) / seconds);
  point.read_mibps = OrNan(timed, static_cast<double>(m.read.bytes) / seconds / kBytesPerMib);
  point.write_mibps = OrNan(timed, static_cast<double>(m.write.bytes) / seconds / kBytesPerMib);
  point.dirty_share = OrNan(timed, m.dirty_share);
  point.read_hit_share = OrNan(reads, m.read_hit_share);
  point.destage_mibps =
      OrNan(timed, static_cast<double>(m.destaged_bytes) / seconds / kBytesPerMib);
  point.throttle_share = OrNan(timed, m.throttle_seconds / seconds);
  point.on_trial = on_trial;
  point.holdback = holdback;
  return point;
}

void AddToTotals(const env::WindowMetrics& metrics, NodeTotals& totals) {
  AddOp(metrics.read, totals.read);
  AddOp(metrics.write, totals.write);
  AddOp(metrics.flush, totals.flush);
  totals.destaged_bytes += metrics.destaged_bytes;
  totals.capacity_written_bytes += metrics.capacity_written_bytes;
  totals.throttle_seconds += metrics.throttle_seconds;
  totals.cpu_seconds += metrics.cpu_seconds;
}

}  // namespace ebb::engine
