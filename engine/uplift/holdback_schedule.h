// HoldbackSchedule: when the default runs for a while, and for how long.
//
// Every knob costs the windows that it needs to act, so where a slow one differs from the default
// the blocks are longer and, for the same share of the time, rarer. Gaps are drawn at random: a
// fixed rhythm could march in step with a load that comes every few minutes. Windows are the
// measure of time. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "base/rng.h"

namespace ebb::engine {

struct HoldbackPlan {
  uint32_t settle_windows = 1;   // of the default, not measured
  uint32_t default_windows = 0;  // measured
  uint32_t side_windows = 0;     // of the tuned setting, measured before the block and after it
  bool slow = false;             // a slow knob made it longer
  uint32_t cost_windows() const { return settle_windows + default_windows; }
};

// `settle_windows`: what the slowest knob that differs from the default asks for.
HoldbackPlan PlanHoldback(uint32_t block_windows, uint32_t settle_windows);

class HoldbackSchedule {
 public:
  // `share` of the windows run the default, settling included; 0: none ever do.
  HoldbackSchedule(double share, uint64_t seed) : share_(share), rng_(seed) {}

  // Asked once a window while a setting other than the default could be held back.
  bool Due(int64_t window, const HoldbackPlan& plan);
  // A block ended (whatever asked for it).
  void NoteEnd(int64_t window, const HoldbackPlan& plan);
  // The default is the incumbent: there is nothing to hold back.
  void Stop() { due_window_.reset(); }

 private:
  double PeriodWindows(const HoldbackPlan& plan) const { return plan.cost_windows() / share_; }

  double share_;
  Rng rng_;
  std::optional<int64_t> due_window_;
};

}  // namespace ebb::engine
