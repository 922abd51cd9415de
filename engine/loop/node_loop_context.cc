// What a NodeLoop remembers of the loads its node was under.
#include <fmt/format.h>

#include "base/time_text.h"
#include "engine/loop/node_loop.h"

namespace ebb::engine {

void NodeLoop::LoadContexts() {
  if (!contexts_.library().contexts().empty()) return;
  const auto saved = parts_.history.Document(ContextKey(status_.id));
  // What cannot be read is learned again: nothing depends on it but time.
  if (saved.ok() && *saved) contexts_.library().Load(**saved).IgnoreError();
}

void NodeLoop::FollowContext(const env::Observation& observation) {
  if (!environment_) return;  // lost within this window
  const bool known = contexts_.Next(FeaturesOf(observation.descriptor),
                                    environment_->info().device_class, observation.wall_ms);
  if (!known) return;
  if (envelope_) envelope_->SetContext(contexts_.id());
  const ContextStatus status = contexts_.Status(std::string(GoalName(goal_)));
  std::string text = contexts_.remembered()
                         ? fmt::format("the load is {} again, first seen {}", status.id,
                                       FormatRfc3339(status.first_seen_ms))
                         : fmt::format("a load not seen before is remembered as {}", status.id);
  text += ": " + status.load;
  HistoryWrite write;
  write.events = {{observation.wall_ms, status_.id, "context", text}};
  write.documents = {{ContextKey(status_.id), contexts_.library().Save()}};
  write.sync = false;
  if (const absl::Status told = parts_.history.Write(write); !told.ok()) NoteFault(told);
}

std::optional<agents::Proposal> NodeLoop::Recall() const {
  const std::optional<BestKnown> best = contexts_.ToRecall(std::string(GoalName(goal_)));
  if (!best) return std::nullopt;
  const env::KnobSpace& space = environment_->space();
  const std::vector<bool> frozen = Frozen();
  agents::Proposal proposal;
  proposal.candidate = incumbent_;
  for (size_t i = 0; i < space.size(); ++i) {
    const auto value = best->setting.find(space[i].name);
    if (frozen[i] || value == best->setting.end()) continue;
    proposal.candidate.values[i] = space.Clamp(i, static_cast<double>(value->second));
  }
  if (proposal.candidate == incumbent_) return std::nullopt;
  proposal.reason = fmt::format(
      "the best known setting of this load ({}, kept by change {} with {}) is tried again",
      contexts_.id(), best->change_id, EffectText(best->effect));
  return proposal;
}

}  // namespace ebb::engine
