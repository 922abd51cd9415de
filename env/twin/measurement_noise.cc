#include "env/twin/measurement_noise.h"

#include <cmath>

#include "base/check.h"

namespace ebb::twin {
namespace {

void Stretch(double all, double upper_tenth, double count_factor, env::OpWindow& op) {
  if (op.ops == 0) return;
  const double limit_ns = op.latency.QuantileNs(0.9);
  LatencyHistogram changed;
  double owed = 0;  // parts of requests, carried on so that the sum stays right
  for (const auto& [bucket, count] : op.latency.Sparse()) {
    const auto low = static_cast<double>(LatencyHistogram::BucketLowNs(bucket));
    const auto high = static_cast<double>(LatencyHistogram::BucketHighNs(bucket));
    const double middle_ns = (low + high) / 2;
    const double factor = middle_ns > limit_ns ? all * upper_tenth : all;
    owed += static_cast<double>(count) * count_factor;
    const auto whole = static_cast<uint64_t>(owed);
    owed -= static_cast<double>(whole);
    if (whole > 0) changed.Record(static_cast<uint64_t>(middle_ns * factor), whole);
  }
  if (changed.count() == 0) return;
  op.bytes = static_cast<uint64_t>(static_cast<double>(op.bytes) * count_factor);
  op.latency = changed;
  op.ops = changed.count();
  op.p50_ns = changed.QuantileNs(0.5);
  op.p99_ns = changed.QuantileNs(0.99);
  op.mean_ns = changed.MeanNs();
}

}  // namespace

MeasurementNoise::MeasurementNoise(const NoiseSpec& spec, uint64_t seed) : spec_(spec), rng_(seed) {
  EBB_CHECK(spec.cv >= 0 && spec.autocorrelation >= 0 && spec.autocorrelation < 1);
  // The first window already has the stationary spread.
  for (double& state : state_) state = spec_.cv * rng_.Normal();
}

void MeasurementNoise::Disturb(bool closed_loop, env::WindowMetrics& metrics) {
  if (spec_.cv == 0 && spec_.tail_chance == 0) return;
  const double rho = spec_.autocorrelation;
  const double fresh = spec_.cv * std::sqrt(1 - rho * rho);
  for (double& state : state_) state = rho * state + fresh * rng_.Normal();
  double tail = 1;
  if (rng_.Chance(spec_.tail_chance)) {
    tail = 1 + spec_.tail_scale * -std::log(1 - rng_.Uniform());
  }
  const double throughput = closed_loop ? std::exp(state_[2]) : 1;
  Stretch(std::exp(state_[0]), tail, throughput, metrics.read);
  Stretch(std::exp(state_[1]), tail, throughput, metrics.write);
}

}  // namespace ebb::twin
