#include "engine/uplift/holdback_schedule.h"

#include <algorithm>

namespace ebb::engine {
namespace {

// From here on a knob is slow: what it needs to act would be most of an ordinary block.
constexpr uint32_t kSlowSettleWindows = 5;

}  // namespace

HoldbackPlan PlanHoldback(uint32_t block_windows, uint32_t settle_windows) {
  HoldbackPlan plan;
  plan.settle_windows = std::max(1U, settle_windows);
  plan.default_windows = std::max(1U, block_windows);
  plan.slow = plan.settle_windows > kSlowSettleWindows;
  if (plan.slow) plan.default_windows = std::max(plan.default_windows, 2 * plan.settle_windows);
  plan.side_windows = plan.default_windows;
  return plan;
}

bool HoldbackSchedule::Due(int64_t window, const HoldbackPlan& plan) {
  if (share_ <= 0) return false;
  // At first anywhere within a period, so that nothing in the load's own rhythm is preferred.
  if (!due_window_) {
    due_window_ =
        window + plan.side_windows + static_cast<int64_t>(rng_.Uniform() * PeriodWindows(plan));
  }
  return window >= *due_window_;
}

void HoldbackSchedule::NoteEnd(int64_t window, const HoldbackPlan& plan) {
  if (share_ <= 0) return;
  const double gap = PeriodWindows(plan) * (0.5 + rng_.Uniform()) - plan.cost_windows();
  due_window_ = window + std::max<int64_t>(plan.side_windows, static_cast<int64_t>(gap));
}

}  // namespace ebb::engine
