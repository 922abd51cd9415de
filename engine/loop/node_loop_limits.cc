// What keeps a NodeLoop's hands off: the hours of its schedule, the never-touch list, the budget.
#include <fmt/format.h>

#include "base/status.h"
#include "engine/loop/node_loop.h"

namespace ebb::engine {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr double kMsPerSecond = 1000;
constexpr uint32_t kBrokenWindowsTold = 3;  // in a row: one is noise

std::string_view KindOf(Rest::Kind kind) {
  return kind == Rest::Kind::kMaintenance ? "maintenance" : "quiet_hours";
}

}  // namespace

void NodeLoop::MindSchedule() {
  Rest now = RestAt(parts_.config.schedule, parts_.clock.WallMs());
  if (now.kind == Rest::Kind::kMaintenance) {
    if (trial_) AbortTrial(now.why);
    if (environment_ && holdback_) EndHoldback(now.why);
  }
  if (now == rest_) return;
  if (rest_.kind != Rest::Kind::kNone) {
    Tell(std::string(KindOf(rest_.kind)), rest_.why + ": over");
  }
  if (now.kind != Rest::Kind::kNone) {
    Tell(std::string(KindOf(now.kind)),
         now.why + (now.kind == Rest::Kind::kMaintenance
                        ? ": the node stays on its trusted setting"
                        : ": nothing new is proposed or tried; what runs may end"));
  }
  rest_ = std::move(now);
}

void NodeLoop::MindLimits(const env::Observation& observation) {
  const std::string broken = BrokenLimits(goal_.limits, observation.metrics);
  limits_broken_in_row_ = broken.empty() ? 0 : limits_broken_in_row_ + 1;
  {
    const std::lock_guard lock(mutex_);
    status_.limits_broken = limits_broken_in_row_ < kBrokenWindowsTold ? "" : broken;
  }
  if (limits_broken_in_row_ != kBrokenWindowsTold) return;  // once each time it begins
  Tell("limit", "the trusted setting breaks a hard limit of the goal: " + broken);
}

std::string NodeLoop::HoldbackFault() const {
  if (window_ < holdback_not_before_) {
    return fmt::format("a trip wire of the node ended the last try; next one in {} windows",
                       holdback_not_before_ - window_);
  }
  const std::lock_guard lock(mutex_);
  const env::KnobSpace& space = environment_->space();
  for (size_t i = 0; i < space.size(); ++i) {
    if (incumbent_.values[i] == standard_.values[i]) continue;
    if (record_.pins.contains(space[i].name)) return space[i].name + " is pinned";
    if (envelope_->NeverTouches(space[i].name)) {
      return space[i].name + " is on the never-touch list of the configuration";
    }
  }
  return {};
}

absl::Status NodeLoop::SeedBudget() {
  const int64_t now_ms = parts_.clock.WallMs();
  ChangeQuery query;
  // An approved trial may begin as long after its proposal as a recommendation stands.
  query.from_ms = now_ms - kHourMs - parts_.config.recommendation_ms;
  query.limit = parts_.config.envelope.trials_per_hour_max;
  EBB_ASSIGN_OR_RETURN(const std::vector<Change> recent,
                       parts_.history.Changes(record().id, query));
  for (const Change& change : recent) {  // newest first
    const bool by_us = change.actor.starts_with("agent:") ||
                       change.actor.starts_with(kContextActor) || change.actor == kGuardActor;
    // A clock that was set back makes an hour that has passed look like one to come.
    if (!by_us || change.applied_ms <= now_ms - kHourMs || change.applied_ms > now_ms) continue;
    envelope_->NotePastTrial(static_cast<double>(now_ms - change.applied_ms) / kMsPerSecond);
  }
  return absl::OkStatus();
}

}  // namespace ebb::engine
