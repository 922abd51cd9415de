// ShiftDetector says when the load became a different one.
//
// Looks at load features only, never at how well the store does: the tuner moves the latter. Two
// speeds: a jump (three windows in a row far outside of the reference) and a creep (a cumulative
// sum of small deviations of one sign). The reference is the median and spread of the last windows,
// so a load that comes in bursts is its own normal. Pure state machine, not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "engine/index/load_features.h"

namespace ebb::engine {

struct ShiftConfig {
  uint32_t reference_windows = 60;
  uint32_t reference_windows_min = 10;
  double jump_deviations = 6;
  uint32_t jump_windows = 3;
  double creep_slack = 1.5;      // deviations that are forgiven in each window
  double creep_threshold = 25;   // sum of the rest
  double deviation_floor = 0.4;  // in feature units: smaller moves are no new load
};

class ShiftDetector {
 public:
  explicit ShiftDetector(const ShiftConfig& config) : config_(config) {}

  // The reason in one sentence when this window completes a shift; the reference then starts anew.
  // Idle windows are not given in.
  std::optional<std::string> Next(const LoadFeatures& features);
  void Reset();
  // Windows of the present load seen so far.
  size_t windows() const { return reference_.size(); }

 private:
  struct Reference {
    double median = 0;
    double deviation = 0;
  };
  Reference ReferenceOf(size_t feature) const;

  ShiftConfig config_;
  std::deque<LoadFeatures> reference_;
  std::deque<LoadFeatures> suspects_;  // windows of a possible jump, not yet in the reference
  std::array<double, kLoadFeatureCount> creep_up_{};
  std::array<double, kLoadFeatureCount> creep_down_{};
};

}  // namespace ebb::engine
