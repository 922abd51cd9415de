#include "env/node/snapshot.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace ebb::env {
namespace {

constexpr double kBlockBytes = 4096;
// No store that this code runs on gets near these: beyond them a counter is broken.
constexpr double kOpsPerSecondMax = 50e6;
constexpr double kBytesPerSecondMax = 1e12;
constexpr double kInFlightMax = 1e6;

struct NamedOp {
  const char* name;
  OpTotals NodeSnapshot::*totals;
};
constexpr std::array<NamedOp, 4> kOps = {{{"read", &NodeSnapshot::read},
                                          {"write", &NodeSnapshot::write},
                                          {"flush", &NodeSnapshot::flush},
                                          {"trim", &NodeSnapshot::trim}}};

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string WentBackwards(std::string_view name, uint64_t before, uint64_t after) {
  return fmt::format("counter {} went back from {} to {}", name, before, after);
}

bool BucketsOnlyGrow(const LatencyHistogram& before, const LatencyHistogram& after) {
  const std::vector<std::pair<uint32_t, uint64_t>> later = after.Sparse();
  size_t at = 0;
  for (const auto& [bucket, count] : before.Sparse()) {
    while (at < later.size() && later[at].first < bucket) ++at;
    if (at == later.size() || later[at].first != bucket || later[at].second < count) return false;
  }
  return after.sum_ns() >= before.sum_ns();
}

std::string FaultOfTime(const NodeSnapshot& before, const NodeSnapshot& after,
                        const WindowLimits& limits) {
  if (after.epoch != before.epoch) return "the node restarted within this window";
  if (after.monotonic_ns <= before.monotonic_ns) {
    return "stale numbers: the node's clock did not advance";
  }
  const double seconds = Seconds(after.monotonic_ns - before.monotonic_ns);
  if (std::abs(seconds - limits.expected_seconds) > 0.05 + 0.25 * limits.expected_seconds) {
    return fmt::format("stale numbers: the node's clock moved {:.2f} s in a window of {:.2f} s",
                       seconds, limits.expected_seconds);
  }
  return "";
}

std::string FaultOfOp(const char* name, const OpTotals& before, const OpTotals& after,
                      double seconds) {
  const std::array<std::pair<const char*, std::pair<uint64_t, uint64_t>>, 3> counters = {
      {{"ops", {before.ops, after.ops}},
       {"bytes", {before.bytes, after.bytes}},
       {"errors", {before.errors, after.errors}}}};
  for (const auto& [what, values] : counters) {
    if (values.second < values.first) {
      return WentBackwards(fmt::format("{}.{}", name, what), values.first, values.second);
    }
  }
  if (!BucketsOnlyGrow(before.latency, after.latency)) {
    return fmt::format("the latency histogram of {} went back", name);
  }
  const uint64_t ops = after.ops - before.ops;
  const uint64_t bytes = after.bytes - before.bytes;
  const uint64_t timed = after.latency.count() - before.latency.count();
  if (static_cast<double>(ops) > kOpsPerSecondMax * seconds ||
      static_cast<double>(bytes) > kBytesPerSecondMax * seconds) {
    return fmt::format("impossible rate: {} {} operations and {} bytes in {:.2f} s", ops, name,
                       bytes, seconds);
  }
  if (ops == 0 && bytes > 0) {
    return fmt::format("contradiction: {} bytes of {} without an operation", bytes, name);
  }
  if (timed != ops) {
    return fmt::format("contradiction: {} {} operations, but {} latencies", ops, name, timed);
  }
  return "";
}

std::string FaultOfGauges(const NodeSnapshot& after) {
  for (const auto& [name, value] : after.gauges) {
    if (!std::isfinite(value) || value < 0) {
      return fmt::format("impossible reading: {} is {}", name, value);
    }
  }
  const double space = after.Gauge("cache_space_bytes");
  const double dirty = after.Gauge("dirty_bytes");
  const double used = dirty + after.Gauge("clean_bytes") + after.Gauge("free_bytes");
  if (dirty > space) {
    return fmt::format("contradiction: {:.0f} dirty bytes in a cache of {:.0f}", dirty, space);
  }
  if (used != space) {
    return fmt::format("contradiction: dirty, clean and free add up to {:.0f} bytes of {:.0f}",
                       used, space);
  }
  if (after.Gauge("unique_bytes") > after.Gauge("logical_bytes")) {
    return fmt::format("contradiction: {:.0f} unique bytes among {:.0f} logical ones",
                       after.Gauge("unique_bytes"), after.Gauge("logical_bytes"));
  }
  return "";
}

std::string FaultOfCounters(const NodeSnapshot& before, const NodeSnapshot& after, double seconds,
                            const WindowLimits& limits) {
  for (const auto& [name, value] : before.counters) {
    if (after.Counter(name) < value) return WentBackwards(name, value, after.Counter(name));
  }
  const auto delta_seconds = [&](const char* name) {
    return Seconds(after.Counter(name) - before.Counter(name));
  };
  if (delta_seconds("in_flight_ns_sum") > kInFlightMax * seconds) {
    return "impossible reading: more than a million requests in flight";
  }
  // A little more than the host has: the two clocks are not read at the same instant.
  if (const double busy = delta_seconds("busy_cpu_ns");
      limits.processors > 0 && busy > limits.processors * (1.1 * seconds + 0.05)) {
    return fmt::format("impossible reading: {:.2f} processor seconds in {:.2f} s", busy, seconds);
  }
  return "";
}

std::string FaultOf(const NodeSnapshot& before, const NodeSnapshot& after,
                    const WindowLimits& limits) {
  if (std::string fault = FaultOfTime(before, after, limits); !fault.empty()) return fault;
  const double seconds = Seconds(after.monotonic_ns - before.monotonic_ns);
  for (const NamedOp& op : kOps) {
    std::string fault = FaultOfOp(op.name, before.*op.totals, after.*op.totals, seconds);
    if (!fault.empty()) return fault;
  }
  if (std::string fault = FaultOfCounters(before, after, seconds, limits); !fault.empty()) {
    return fault;
  }
  return FaultOfGauges(after);
}

OpWindow Difference(const OpTotals& before, const OpTotals& after) {
  OpWindow op;
  op.ops = after.ops - before.ops;
  op.bytes = after.bytes - before.bytes;
  op.errors = after.errors - before.errors;
  op.latency = after.latency.Since(before.latency);
  op.p50_ns = op.latency.QuantileNs(0.50);
  op.p99_ns = op.latency.QuantileNs(0.99);
  op.mean_ns = op.latency.MeanNs();
  return op;
}

}  // namespace

uint64_t NodeSnapshot::Counter(const std::string& name) const {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

double NodeSnapshot::Gauge(const std::string& name) const {
  const auto found = gauges.find(name);
  return found == gauges.end() ? 0 : found->second;
}

WindowMetrics MeasureWindow(const NodeSnapshot& before, const NodeSnapshot& after,
                            const WindowLimits& limits, std::string& void_reason) {
  WindowMetrics metrics;
  void_reason = FaultOf(before, after, limits);
  if (!void_reason.empty()) return metrics;

  const auto gauge_bytes = [&](const char* name) {
    return static_cast<uint64_t>(after.Gauge(name));
  };
  const auto delta = [&](const char* name) { return after.Counter(name) - before.Counter(name); };
  metrics.seconds = Seconds(after.monotonic_ns - before.monotonic_ns);
  metrics.read = Difference(before.read, after.read);
  metrics.write = Difference(before.write, after.write);
  metrics.flush = Difference(before.flush, after.flush);
  metrics.mean_in_flight = Seconds(delta("in_flight_ns_sum")) / metrics.seconds;
  metrics.dirty_bytes = gauge_bytes("dirty_bytes");
  metrics.clean_bytes = gauge_bytes("clean_bytes");
  metrics.free_bytes = gauge_bytes("free_bytes");
  metrics.cache_space_bytes = gauge_bytes("cache_space_bytes");
  metrics.dirty_share = after.Gauge("dirty_share");
  metrics.draining_by_operator = after.Gauge("draining") != 0;
  metrics.logical_bytes = gauge_bytes("logical_bytes");
  metrics.unique_bytes = gauge_bytes("unique_bytes");
  metrics.physical_bytes = gauge_bytes("physical_bytes");
  const auto hits = static_cast<double>(delta("read_blocks_dram") + delta("read_blocks_cache"));
  const double mapped = hits + static_cast<double>(delta("read_blocks_capacity"));
  metrics.read_hit_share = mapped > 0 ? hits / mapped : 0;
  metrics.destaged_bytes =
      static_cast<uint64_t>(static_cast<double>(delta("destaged_blocks")) * kBlockBytes);
  metrics.capacity_written_bytes = delta("capacity_written_bytes");
  metrics.throttle_seconds = Seconds(delta("throttle_ns"));
  metrics.cpu_seconds = Seconds(delta("busy_cpu_ns"));
  return metrics;
}

}  // namespace ebb::env
