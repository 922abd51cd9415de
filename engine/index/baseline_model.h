// BaselineModel: what the default setting would give under a given load.
//
// Learns from windows in which the default ran (observe mode at first, holdback windows later) and
// answers by local ridge regression: windows count by how near their load is to the asked one and
// by how recent they are, and a linear trend in the load features corrects for the rest. So it
// follows curves (latency against queue depth) without being told their shape. The answer carries
// its uncertainty and says when the load is unlike anything seen. "Default" means the setting that
// ran when Ebb was attached (the node's incumbent), unless the owner of this model decides
// otherwise. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/goal/goal.h"
#include "engine/index/load_features.h"

namespace ebb::engine {

struct BaselineConfig {
  size_t samples_max = 2000;       // older windows are forgotten first
  double half_life_windows = 400;  // by windows learned, so a pause forgets nothing
  double near_windows_min = 8;     // sum of nearness below this: "outside what was seen"
  double ridge = 4;                // strength of the prior that a load feature has no effect
};

struct BaselineEstimate {
  std::array<double, kComponentCount> log_mean{};
  std::array<double, kComponentCount> log_sd{};  // of the mean, not of a single window
  bool has_read = false;
  bool has_write = false;
  double near_windows = 0;  // how much evidence there was
};

class BaselineModel {
 public:
  explicit BaselineModel(const BaselineConfig& config) : config_(config) {}

  // A window in which the default ran under `features`.
  void Learn(const LoadFeatures& features, const ComponentLogs& logs);
  BaselineEstimate Predict(const LoadFeatures& features) const;
  // Evidence near this load, in windows: 0 to near_windows_min and beyond.
  double NearWindows(const LoadFeatures& features) const;
  size_t windows() const { return samples_.size(); }
  void Clear() { samples_.clear(); }
  const BaselineConfig& config() const { return config_; }

  // The samples as bytes, so that a restart does not have to learn again.
  std::string Save() const;
  absl::Status Load(std::string_view bytes);

 private:
  struct Sample {
    LoadFeatures features;
    ComponentLogs logs;
  };
  void PredictKind(const LoadFeatures& features, size_t first, BaselineEstimate& estimate) const;

  BaselineConfig config_;
  std::deque<Sample> samples_;
};

}  // namespace ebb::engine
