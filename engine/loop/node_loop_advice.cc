// Recommendations of a NodeLoop: proposals that wait for a person, and what becomes of them.
//
// The agent's proposal becomes a change without verdict and an entry in the RecommendationBook. A
// person's decision is written at once, by the caller's thread; the loop starts the trial of what
// was approved, and tells the agent when its advice came to nothing.
#include <algorithm>

#include <fmt/format.h>

#include "base/status.h"
#include "base/time_text.h"
#include "engine/loop/node_loop.h"

namespace ebb::engine {
namespace {

agents::Outcome OutcomeOf(RecommendationState state) {
  // A person's no is an answer; an advice that nobody answered was never judged.
  return state == RecommendationState::kRejected ? agents::Outcome::kInconclusive
                                                 : agents::Outcome::kVoid;
}

// The best known setting of a remembered load: no agent waits for its end.
bool IsRecall(const Recommendation& advice) { return advice.actor.starts_with(kContextActor); }

std::string WithReason(std::string text, const std::string& reason) {
  return reason.empty() ? text : std::move(text) + ": " + reason;
}

}  // namespace

void NodeLoop::LoadBook() {
  const auto saved = parts_.history.Document(RecommendationsKey(record_.id));
  if (!saved.ok()) return NoteFault(saved.status());
  if (!*saved) return;
  absl::StatusOr<RecommendationBook> book = RecommendationBook::Load(**saved);
  if (!book.ok()) return NoteFault(book.status());
  book_ = *std::move(book);
  book_saved_version_ = book_.version();
}

void NodeLoop::Recommend(const agents::Proposal& proposal, const std::string& actor) {
  Change change = NewChange(proposal.candidate, actor, proposal.reason);
  change.predicted = proposal.predicted;
  Recommendation advice;
  advice.id = RecommendationId(status_.id, GoalText(goal_), change.knobs);
  AddStep(change, "recommended",
          fmt::format("recommended as {}; nothing was changed, as the mode says", advice.id));
  if (const absl::Status written = WriteChange(change, "recommended"); !written.ok()) {
    return SetState(TunerState::kObserving, std::string(written.message()));
  }
  advice.change_id = change.id;
  advice.node = change.node;
  advice.actor = change.actor;
  advice.goal = change.goal;
  for (const env::KnobChange& knob : change.knobs) {
    const auto [low, high] =
        envelope_->Bounds(environment_->space(), *environment_->space().Find(knob.knob), knob.from);
    advice.knobs.push_back({knob.knob, knob.from, knob.to, low, high});
  }
  advice.from_setting = NameSetting(environment_->space(), incumbent_);
  advice.reason = change.reason;
  advice.expected = proposal.predicted;
  advice.made_ms = change.proposed_ms;
  advice.expires_ms = change.proposed_ms + parts_.config.recommendation_ms;
  advice_told_ = advice.id;
  const std::lock_guard lock(mutex_);
  const RecommendationBook before = book_;
  book_.Add(std::move(advice));
  if (!WriteLocked({}).ok()) {  // shows in the status; the change without entry ends later
    book_ = before;
    orphans_ = true;
    return;
  }
  status_.last_change = change;
}

env::Setting NodeLoop::CandidateOf(const Recommendation& advice) const {
  const env::KnobSpace& space = environment_->space();
  env::Setting candidate = UnnameSetting(space, advice.from_setting, incumbent_);
  for (const RecommendedKnob& knob : advice.knobs) {
    if (const auto index = space.Find(knob.knob)) candidate.values[*index] = knob.to;
  }
  return candidate;
}

std::string NodeLoop::AdviceFault(const Recommendation& advice) const {
  if (advice.from_setting != NameSetting(environment_->space(), incumbent_)) {
    return "the setting that it starts from is gone";
  }
  return envelope_->CandidateFault(environment_->space(), incumbent_, CandidateOf(advice), Frozen(),
                                   advice.expected.has_value() || IsRecall(advice),
                                   static_cast<uint64_t>(window_));
}

bool NodeLoop::MindRecommendation() {
  const std::optional<Recommendation> advice = OpenRecommendation();
  if (!advice) return false;
  if (const std::string fault = AdviceFault(*advice); !fault.empty()) {
    CloseRecommendation(RecommendationState::kWithdrawn, "no longer legal: " + fault);
    return OpenRecommendation().has_value();  // still: the history cannot be written
  }
  if (advice->state == RecommendationState::kApproved) {
    StartApproved(*advice);
  } else {
    SetState(TunerState::kObserving, fmt::format("recommendation {} waits for a person until {}",
                                                 advice->id, FormatRfc3339(advice->expires_ms)));
  }
  return true;
}

void NodeLoop::StartApproved(const Recommendation& advice) {
  const auto samples =
      incumbent_windows_.Samples(baseline_, goal_, window_ - parts_.config.before_windows_age_max);
  if (samples.size() < TrialProtocol::kBeforeWindowsMin) {
    return SetState(TunerState::kObserving,
                    fmt::format("recommendation {} was approved by {}; its trial waits for windows "
                                "of the present setting that have an index",
                                advice.id, advice.decided_by));
  }
  agents::Proposal proposal;
  proposal.candidate = CandidateOf(advice);
  proposal.predicted = advice.expected;
  proposal.reason = advice.reason;
  StartTrial(proposal, advice.actor, /*recheck=*/false, advice.change_id);
}

void NodeLoop::CloseRecommendation(RecommendationState state, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const RecommendationBook before = book_;
  const std::optional<Recommendation> closed = book_.Close(state, reason, parts_.clock.WallMs());
  if (!closed) return;
  const std::string word(RecommendationWord(state));
  HistoryWrite write;
  write.change_event = word;
  write.wall_ms = closed->decided_ms;
  absl::StatusOr<Change> change = parts_.history.GetChange(closed->change_id);
  if (change.ok() && change->verdict == Verdict::kPending) {
    change->verdict = Verdict::kVoid;
    change->verdict_reason = fmt::format(
        "never applied: recommendation {} {}: {}", closed->id,
        state == RecommendationState::kExpired ? std::string("expired") : "was " + word, reason);
    change->decided_ms = closed->decided_ms;
    AddStep(*change, word, change->verdict_reason);
    write.change = &*change;
  }
  if (!WriteLocked(std::move(write)).ok()) book_ = before;  // tried again in the next window
}

void NodeLoop::ExpireRecommendation() {
  const std::optional<Recommendation> advice = OpenRecommendation();
  if (!advice || parts_.clock.WallMs() < advice->expires_ms) return;
  CloseRecommendation(RecommendationState::kExpired,
                      advice->state == RecommendationState::kApproved
                          ? "it was approved, but no trial could start in time"
                          : "nobody decided in time");
}

void NodeLoop::TellAgentOfAdvice() {
  if (!agent_ || !environment_) return;
  const std::lock_guard lock(mutex_);
  const std::optional<Recommendation> open = book_.open();
  if (open) {
    advice_told_ = open->id;
    return;
  }
  if (advice_told_.empty()) return;
  const std::optional<Recommendation> ended = book_.Find(std::exchange(advice_told_, ""));
  // What was tried is told with the verdict of its trial.
  if (!ended || ended->state == RecommendationState::kTried || IsRecall(*ended)) return;
  agents::Transition transition;
  transition.from = UnnameSetting(environment_->space(), ended->from_setting, incumbent_);
  transition.to = CandidateOf(*ended);
  transition.predicted = ended->expected;
  transition.outcome = OutcomeOf(ended->state);
  agent_->Learn(transition);
}

std::optional<Recommendation> NodeLoop::OpenRecommendation() const {
  const std::lock_guard lock(mutex_);
  return book_.open();
}

std::vector<Recommendation> NodeLoop::Recommendations() const {
  const std::lock_guard lock(mutex_);
  return book_.NewestFirst();
}

absl::StatusOr<Recommendation> NodeLoop::DecideRecommendation(const std::string& id, bool approve,
                                                              const std::string& reason,
                                                              const std::string& actor) {
  const std::lock_guard lock(mutex_);
  const RecommendationBook before = book_;
  EBB_ASSIGN_OR_RETURN(const Recommendation decided,
                       book_.Decide(id, approve, actor, reason, parts_.clock.WallMs()));
  const auto refuse = [&](const absl::Status& why) {
    book_ = before;
    return why;
  };
  if (approve && record_.mode != Mode::kApprove) {
    return refuse(absl::FailedPreconditionError(
        fmt::format("nothing is applied on {0} while its mode is {1}; set it first: ebb mode {0} "
                    "approve",
                    record_.id, ModeWord(record_.mode))));
  }
  absl::StatusOr<Change> change = parts_.history.GetChange(decided.change_id);
  if (!change.ok()) return refuse(change.status());
  const std::string text = WithReason(
      fmt::format("{} {} recommendation {}", actor, approve ? "approved" : "rejected", id), reason);
  const std::string word(RecommendationWord(decided.state));
  AddStep(*change, word, text);
  if (!approve) {
    change->verdict = Verdict::kVoid;
    change->verdict_reason = "never applied: " + text;
    change->decided_ms = decided.decided_ms;
  }
  HistoryWrite write;
  write.change = &*change;
  write.change_event = word;
  write.wall_ms = decided.decided_ms;
  if (const absl::Status written = WriteLocked(std::move(write)); !written.ok()) {
    return refuse(written);
  }
  if (status_.last_change && status_.last_change->id == change->id) status_.last_change = *change;
  return decided;
}

}  // namespace ebb::engine
