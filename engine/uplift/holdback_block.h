// HoldbackBlock: a few windows of the default between windows of the tuned setting, as measured.
//
// No model says what the default would have given: it ran, minutes apart and with the same weight
// on both sides, so that whatever moves steadily (a store that ages, a load that grows) cancels.
// Pure functions and a collector without I/O, not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/goal/goal.h"
#include "engine/index/load_features.h"
#include "engine/uplift/holdback_schedule.h"
#include "env/observation.h"

namespace ebb::engine {

// What a block found; of several that were merged, the mean.
struct UpliftBlock {
  int64_t from_ms = 0;
  int64_t to_ms = 0;
  double weight = 1;  // blocks in it
  uint32_t long_blocks = 0;
  uint64_t default_windows = 0;
  uint64_t tuned_windows = 0;
  // Logarithm of tuned over default, of each component; of kinds of requests that came often
  // enough.
  std::array<double, kComponentCount> log_ratio{};
  bool has_read = false;
  bool has_write = false;
  double read_share = 0;  // of the operations

  // Logarithm of the index of the tuned setting over the default's; 0 when no kind counts.
  double LogUplift(const Goal& goal) const;
};

// FailedPrecondition, in one sentence, when the windows cannot be compared: too few of them are
// fit, or the load on both sides was another one.
absl::StatusOr<UpliftBlock> MeasureBlock(const std::vector<env::Observation>& before,
                                         const std::vector<env::Observation>& with_default,
                                         const std::vector<env::Observation>& after);

// Collects one block, window by window. The caller sees to it that the windows are settled, valid
// and of the setting that they are said to be of.
class HoldbackBlock {
 public:
  // Of `before`, oldest first, as many count as will follow after it.
  HoldbackBlock(const HoldbackPlan& plan, std::vector<env::Observation> before);

  void AddDefault(const env::Observation& observation) { default_.push_back(Slim(observation)); }
  // The default's windows are over; those of the tuned setting follow.
  void EndDefault() { default_ended_ = true; }
  void AddTuned(const env::Observation& observation);

  const HoldbackPlan& plan() const { return plan_; }
  bool waits_for_tuned() const { return default_ended_ && !complete(); }
  // Some windows more than are measured: a shift of the load shows a few windows late, and whoever
  // sees it within these drops the block.
  static constexpr uint32_t kProofWindows = 3;
  bool complete() const {
    return default_ended_ && after_.size() >= plan_.side_windows + kProofWindows;
  }
  size_t tuned_after() const { return after_.size(); }
  absl::StatusOr<UpliftBlock> Measure() const;

 private:
  static env::Observation Slim(env::Observation observation);

  HoldbackPlan plan_;
  std::vector<env::Observation> before_;
  std::vector<env::Observation> default_;
  std::vector<env::Observation> after_;
  bool default_ended_ = false;
};

}  // namespace ebb::engine
