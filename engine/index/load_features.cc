#include "engine/index/load_features.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebb::engine {
namespace {

// A kind with next to no traffic has no size: it gets this one, so that a stray request is no new
// load.
constexpr double kNeutralBytes = 4096;
constexpr double kKindShareMin = 0.01;
// What differs visibly, see load_features.h.
constexpr double kLoadStep = 1.5;
constexpr double kReadShareStep = 0.15;

constexpr std::array<std::string_view, kLoadFeatureCount> kWords = {
    "load size", "read share", "read size", "write size", "sequential share"};

double SizeFeature(double mean_bytes, double kind_share) {
  if (kind_share < kKindShareMin || !(mean_bytes > 0)) return std::log2(kNeutralBytes);
  return std::log2(mean_bytes);
}

}  // namespace

LoadFeatures FeaturesOf(const env::WorkloadDescriptor& descriptor) {
  LoadFeatures features;
  features.closed_loop = descriptor.mean_in_flight >= kClosedLoopInFlight;
  const double load_size = features.closed_loop ? descriptor.mean_in_flight
                                                : std::max(1.0, descriptor.offered_ops_per_s);
  features.value = {std::log(load_size) / std::log(kLoadStep),
                    descriptor.read_share / kReadShareStep,
                    SizeFeature(descriptor.mean_read_bytes, descriptor.read_share),
                    SizeFeature(descriptor.mean_write_bytes, 1 - descriptor.read_share),
                    descriptor.sequential_share / 0.25};
  return features;
}

bool HasLoad(const env::WorkloadDescriptor& descriptor) {
  return descriptor.offered_ops_per_s >= 1 || descriptor.mean_in_flight >= 0.01;
}

LoadShape ShapeOf(const LoadFeatures& features) {
  return {std::exp(features.value[0] * std::log(kLoadStep)), features.value[1] * kReadShareStep,
          std::exp2(features.value[2]), std::exp2(features.value[3])};
}

std::string_view LoadFeatureWord(size_t feature) { return kWords[feature]; }

double SquaredDistance(const LoadFeatures& a, const LoadFeatures& b) {
  if (a.closed_loop != b.closed_loop) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < kLoadFeatureCount; ++i) {
    sum += (a.value[i] - b.value[i]) * (a.value[i] - b.value[i]);
  }
  return sum;
}

}  // namespace ebb::engine
