#include "engine/guard/shift_detector.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace ebb::engine {
namespace {

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

ShiftDetector::Reference ShiftDetector::ReferenceOf(size_t feature) const {
  std::vector<double> values;
  values.reserve(reference_.size());
  for (const LoadFeatures& load : reference_) values.push_back(load.value[feature]);
  Reference reference;
  reference.median = Median(values);
  double square_sum = 0;
  for (double& value : values) {
    value -= reference.median;
    square_sum += value * value;
  }
  // The plain deviation, not a robust one: a load that is idle half of the time must count both
  // halves as normal.
  reference.deviation =
      std::max(config_.deviation_floor, std::sqrt(square_sum / static_cast<double>(values.size())));
  return reference;
}

void ShiftDetector::Reset() {
  reference_.clear();
  suspects_.clear();
  creep_up_.fill(0);
  creep_down_.fill(0);
}

std::optional<std::string> ShiftDetector::Next(const LoadFeatures& features) {
  if (reference_.size() < config_.reference_windows_min) {
    reference_.push_back(features);
    return std::nullopt;
  }
  bool jumped = features.closed_loop != reference_.back().closed_loop;
  std::string what = features.closed_loop ? "clients now wait for their answers"
                                          : "clients no longer keep requests waiting";
  std::optional<std::string> creep;
  for (size_t j = 0; j < kLoadFeatureCount && features.closed_loop == reference_.back().closed_loop;
       ++j) {
    const Reference reference = ReferenceOf(j);
    const double deviate = (features.value[j] - reference.median) / reference.deviation;
    if (std::abs(deviate) > config_.jump_deviations) {
      jumped = true;
      what = fmt::format("the {} {}", LoadFeatureWord(j), deviate > 0 ? "rose" : "fell");
    }
    creep_up_[j] = std::max(0.0, creep_up_[j] + deviate - config_.creep_slack);
    creep_down_[j] = std::max(0.0, creep_down_[j] - deviate - config_.creep_slack);
    if (std::max(creep_up_[j], creep_down_[j]) > config_.creep_threshold) {
      creep = fmt::format("the {} has been {} for a while", LoadFeatureWord(j),
                          deviate > 0 ? "higher" : "lower");
    }
  }
  if (jumped) {
    suspects_.push_back(features);
    if (suspects_.size() < config_.jump_windows) return std::nullopt;
    std::deque<LoadFeatures> fresh = std::move(suspects_);
    Reset();
    reference_ = std::move(fresh);
    return what + " at once";
  }
  for (const LoadFeatures& suspect : suspects_) reference_.push_back(suspect);
  suspects_.clear();
  reference_.push_back(features);
  while (reference_.size() > config_.reference_windows) reference_.pop_front();
  if (creep) {
    Reset();
    reference_.push_back(features);
  }
  return creep;
}

}  // namespace ebb::engine
