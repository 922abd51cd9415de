#include "experiments/demo/comparison.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/goal/goal.h"
#include "fmt/format.h"

namespace ebb::demo {
namespace {

void MergeOp(const env::OpWindow& window, env::OpWindow& merged) {
  merged.ops += window.ops;
  merged.bytes += window.bytes;
  merged.errors += window.errors;
  merged.latency.Merge(window.latency);
}

void Summarise(env::OpWindow& merged) {
  merged.p50_ns = merged.latency.QuantileNs(0.50);
  merged.p99_ns = merged.latency.QuantileNs(0.99);
  merged.mean_ns = merged.latency.MeanNs();
}

}  // namespace

env::WindowMetrics MergeWindows(std::span<const env::WindowMetrics> windows) {
  env::WindowMetrics merged;
  if (windows.empty()) return merged;
  merged = windows.back();
  merged.seconds = merged.mean_in_flight = merged.throttle_seconds = merged.cpu_seconds = 0;
  merged.destaged_bytes = merged.capacity_written_bytes = 0;
  merged.read = merged.write = merged.flush = env::OpWindow();
  for (const env::WindowMetrics& window : windows) {
    MergeOp(window.read, merged.read);
    MergeOp(window.write, merged.write);
    MergeOp(window.flush, merged.flush);
    merged.seconds += window.seconds;
    merged.mean_in_flight += window.mean_in_flight * window.seconds;
    merged.throttle_seconds += window.throttle_seconds;
    merged.cpu_seconds += window.cpu_seconds;
    merged.destaged_bytes += window.destaged_bytes;
    merged.capacity_written_bytes += window.capacity_written_bytes;
  }
  if (merged.seconds > 0) merged.mean_in_flight /= merged.seconds;
  Summarise(merged.read);
  Summarise(merged.write);
  Summarise(merged.flush);
  return merged;
}

double PairLogIndex(agents::GoalKind goal, const BlockPair& pair) {
  const std::array<env::WindowMetrics, 2> both = {pair.by_default, pair.tuned};
  const engine::ComponentWeights weights = engine::WeightsFor(goal, MergeWindows(both));
  const engine::ComponentLogs by_default = engine::MeasureComponents(pair.by_default);
  const engine::ComponentLogs tuned = engine::MeasureComponents(pair.tuned);
  double log_index = 0;
  double weight_sum = 0;
  for (size_t i = 0; i < engine::kComponentCount; ++i) {
    // A kind that only one of the two blocks served enough of cannot be compared.
    if (!by_default.has(i) || !tuned.has(i)) continue;
    log_index += weights[i] * engine::ComponentSign(i) * (tuned.value[i] - by_default.value[i]);
    weight_sum += weights[i];
  }
  return weight_sum > 0 ? log_index / weight_sum : std::numeric_limits<double>::quiet_NaN();
}

double StudentQuantile975(size_t degrees_of_freedom) {
  constexpr std::array<double, 30> kTable = {
      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
      2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  EBB_CHECK(degrees_of_freedom > 0);
  if (degrees_of_freedom <= kTable.size()) return kTable[degrees_of_freedom - 1];
  // First terms of the expansion around the normal quantile.
  const double z = 1.959964;
  return z + (z * z * z + z) / (4 * static_cast<double>(degrees_of_freedom));
}

Comparison Compare(std::span<const double> log_indexes) {
  Comparison comparison;
  double sum = 0;
  for (double value : log_indexes) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++comparison.pairs;
  }
  const auto n = static_cast<double>(comparison.pairs);
  if (comparison.pairs < 2) {
    comparison.index = comparison.low = comparison.high = std::numeric_limits<double>::quiet_NaN();
    return comparison;
  }
  const double mean = sum / n;
  double square_sum = 0;
  for (double value : log_indexes) {
    if (std::isfinite(value)) square_sum += (value - mean) * (value - mean);
  }
  const double half =
      StudentQuantile975(comparison.pairs - 1) * std::sqrt(square_sum / (n - 1) / n);
  comparison.index = 100 * std::exp(mean);
  comparison.low = 100 * std::exp(mean - half);
  comparison.high = 100 * std::exp(mean + half);
  comparison.claim = mean - half > 0 || mean + half < 0;
  return comparison;
}

std::string Comparison::ToText() const {
  if (std::isnan(index)) return fmt::format("no claim: only {} comparable pairs", pairs);
  return fmt::format("{:.1f} ({:.1f} to {:.1f}){}", index, low, high,
                     claim ? "" : " no claim: the interval includes zero");
}

std::vector<bool> DrawOrder(size_t pairs, Rng& rng) {
  std::vector<bool> order(pairs, false);
  for (size_t i = 0; i < pairs; i += 2) order[i] = true;
  for (size_t i = pairs; i > 1; --i) {
    const size_t other = rng.Below(i);
    const bool kept = order[i - 1];
    order[i - 1] = order[other];
    order[other] = kept;
  }
  return order;
}

}  // namespace ebb::demo
