// The default's turns of a NodeLoop: a few windows of it between windows of the tuned setting, for
// the baseline model and for the uplift.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/loop/node_loop.h"

namespace ebb::engine {
namespace {

// A block whose tuned windows do not come within so many times their number is given up.
constexpr int64_t kPatience = 4;

}  // namespace

void NodeLoop::LoadUplift() {
  if (!uplift_.entries().empty()) return;
  const auto saved = parts_.history.Document(UpliftKey(status_.id));
  if (!saved.ok() || !*saved) return;
  if (const absl::Status loaded = uplift_.Load(**saved); !loaded.ok()) {
    Tell("uplift", "the uplift starts anew: " + std::string(loaded.message()));
  }
}

HoldbackPlan NodeLoop::PlanOfHoldback() const {
  return PlanHoldback(parts_.config.holdback_block_windows, SettleWindows(incumbent_, standard_));
}

bool NodeLoop::AttendHoldback() {
  if (block_) {
    if (window_ <= block_deadline_window_) {
      SetState(TunerState::kObserving,
               fmt::format("measuring the tuned setting after the default's turn: {} of {} windows",
                           block_->tuned_after(),
                           block_->plan().side_windows + HoldbackBlock::kProofWindows));
      return true;
    }
    DropBlock("the windows after it did not come in time");
  }
  if (IncumbentIsDefault()) {
    holdback_schedule_.Stop();
    return false;
  }
  const HoldbackPlan plan = PlanOfHoldback();
  if (!tuning_allowed() || !holdback_schedule_.Due(window_, plan)) return false;
  const size_t measured =
      incumbent_windows_.Observations(window_ - int64_t{2} * plan.side_windows).size();
  if (measured >= plan.side_windows) {
    StartHoldback("scheduled");
  } else {
    SetState(TunerState::kObserving,
             fmt::format("measuring the tuned setting before the default's turn: {} of {} windows",
                         measured, plan.side_windows));
  }
  return true;
}

void NodeLoop::StartHoldback(const std::string& why) {
  if (const std::string fault = HoldbackFault(); !fault.empty()) {
    holdback_schedule_.NoteEnd(window_, PlanOfHoldback());
    return SetState(TunerState::kObserving,
                    fmt::format("the default cannot run for a while ({}), because {}", why, fault));
  }
  const env::Setting standard = standard_;
  const HoldbackPlan plan = PlanOfHoldback();
  {
    const std::lock_guard lock(mutex_);
    record_.open =
        OpenWork{OpenWork::Kind::kHoldback, 0, NameSetting(environment_->space(), standard), ""};
    HistoryWrite write;
    write.events = {{parts_.clock.WallMs(), status_.id, "holdback",
                     "the default runs for a short time, to keep the index honest: " + why}};
    if (const absl::Status written = WriteLocked(std::move(write)); !written.ok()) {
      record_.open.reset();
      return;
    }
  }
  DropBlock("another turn of the default began");
  block_.emplace(plan, incumbent_windows_.Observations(window_ - int64_t{2} * plan.side_windows));
  env::LeaseTerms terms;
  terms.lease_ms = LeaseMs();
  terms.actor = kGuardActor;
  terms.reason = "holdback: " + why;
  LimitWatch(goal_.limits, incumbent_windows_.Observations()).Tighten(terms.trips);
  const absl::StatusOr<env::AppliedSetting> applied =
      environment_->Apply(standard, setting_version_, terms);
  holdback_ =
      Holdback{applied.ok() ? applied->lease : "", plan.default_windows, plan.settle_windows};
  if (!applied.ok()) return EndHoldback(std::string(applied.status().message()));
  if (progress_ < 1) {
    holdback_->windows_left = std::max(plan.default_windows, parts_.config.learn_windows);
  }
  setting_version_ = applied->version;
  SetState(progress_ < 1 ? TunerState::kLearningBaseline : TunerState::kObserving,
           "the default runs for a few windows: " + why);
}

void NodeLoop::StepHoldback(const env::Observation& observation) {
  const Situation situation{static_cast<uint64_t>(window_),
                            observation.metrics.dirty_share,
                            observation.metrics.draining_by_operator,
                            0,
                            {}};
  if (observation.valid) {
    const std::string trouble = envelope_->TroubleFault(situation);
    if (!trouble.empty()) return EndHoldback(trouble);
  }
  if (holdback_->settle_left > 0) {
    --holdback_->settle_left;
    return;
  }
  const ComponentLogs logs = MeasureComponents(observation.metrics);
  if (observation.valid && !observation.setting_changed && (logs.has_read || logs.has_write) &&
      observation.setting == standard_) {
    baseline_.Learn(FeaturesOf(observation.descriptor), logs);
    ++learned_in_load_;
    if (block_) block_->AddDefault(observation);
  }
  if (--holdback_->windows_left == 0) EndHoldback("done");
}

void NodeLoop::EndHoldback(const std::string& why) {
  const bool done = holdback_->windows_left == 0;
  const absl::Status reverted = RevertLease(holdback_->lease, "end of the holdback: " + why);
  holdback_.reset();
  holdback_schedule_.NoteEnd(window_, PlanOfHoldback());
  if (!reverted.ok()) return Disconnect(reverted);
  settled_window_ = window_ + 1 + SettleWindows(incumbent_, standard_);
  if (!done) {
    DropBlock(why);
  } else if (block_) {
    block_->EndDefault();
    block_deadline_window_ = settled_window_ + kPatience * block_->plan().side_windows;
  }
  const std::lock_guard lock(mutex_);
  record_.open.reset();
  HistoryWrite write;
  write.documents = {{BaselineKey(status_.id), baseline_.Save()}};
  WriteLocked(std::move(write)).IgnoreError();  // shows in the status
}

void NodeLoop::NoteTunedWindow(const env::Observation& observation) {
  if (!block_ || !block_->waits_for_tuned()) return;
  block_->AddTuned(observation);
  if (!block_->complete()) return;
  const absl::StatusOr<UpliftBlock> measured = block_->Measure();
  if (!measured.ok()) return DropBlock(std::string(measured.status().message()));
  block_.reset();
  uplift_.Add(*measured);
  const std::string text = fmt::format(
      "{} windows of the default between {} of the tuned setting: the tuned one is {:+.1f} % "
      "better for the goal {}",
      measured->default_windows, measured->tuned_windows,
      100 * std::expm1(measured->LogUplift(goal_)), GoalName(goal_));
  HistoryWrite write;
  write.events = {
      {parts_.clock.WallMs(), status_.id, "holdback_block", text, BlockText(*measured)}};
  write.documents = {{UpliftKey(status_.id), uplift_.Save()}};
  if (const absl::Status written = parts_.history.Write(write); !written.ok()) NoteFault(written);
}

void NodeLoop::DropBlock(const std::string& why) {
  if (!block_) return;
  block_.reset();
  uplift_.NoteDropped(why);
  Tell("holdback_dropped", "these windows of the default cannot be compared: " + why);
}

UpliftReport NodeLoop::MakeUpliftReport() const {
  UpliftReport report = uplift_.Report(goal_, parts_.clock.WallMs(), parts_.config.uplift_hours);
  if (!uplift_.entries().empty()) return report;
  std::string why;
  if (parts_.config.holdback_share <= 0) why = "no holdback, as it is configured";
  if (environment_ && IncumbentIsDefault())
    why = "the default runs, so there is nothing to compare";
  if (!why.empty()) report.since_attach.missing = report.recent.missing = why;
  return report;
}

}  // namespace ebb::engine
