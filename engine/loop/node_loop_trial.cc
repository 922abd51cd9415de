// Trials of a NodeLoop: from the intent in the journal to the verdict in the history.
#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/status.h"
#include "engine/history/change_json.h"
#include "engine/loop/node_loop.h"

namespace ebb::engine {
namespace {

std::string StepWord(Verdict verdict) {
  switch (verdict) {
    case Verdict::kKeep:
      return "kept";
    case Verdict::kRevert:
      return "reverted";
    case Verdict::kInconclusive:
      return "inconclusive";
    default:
      return "void";
  }
}

agents::Outcome OutcomeOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kKeep:
      return agents::Outcome::kKept;
    case Verdict::kRevert:
      return agents::Outcome::kReverted;
    case Verdict::kInconclusive:
      return agents::Outcome::kInconclusive;
    default:
      return agents::Outcome::kVoid;
  }
}

TunerState StateOf(TrialPhase phase) {
  switch (phase) {
    case TrialPhase::kScreening:
      return TunerState::kScreening;
    case TrialPhase::kConfirming:
      return TunerState::kConfirming;
    default:
      return TunerState::kSettling;
  }
}

}  // namespace

Change NodeLoop::NewChange(const env::Setting& candidate, std::string_view actor,
                           const std::string& reason) const {
  Change change;
  change.node = status_.id;
  change.proposed_ms = parts_.clock.WallMs();
  change.actor = actor;
  change.goal = GoalName(goal_);
  change.context = contexts_.id();
  change.knobs = env::Diff(environment_->space(), incumbent_, candidate);
  change.reason = reason;
  return change;
}

void NodeLoop::AddStep(Change& change, const std::string& step, const std::string& text) const {
  change.steps.push_back({parts_.clock.WallMs(), step, text});
}

absl::Status NodeLoop::WriteChange(Change& change, const std::string& event) {
  HistoryWrite write;
  write.change = &change;
  write.change_event = event;
  write.wall_ms = parts_.clock.WallMs();
  const std::lock_guard lock(mutex_);
  return WriteLocked(std::move(write));
}

absl::StatusOr<Change> NodeLoop::ProposedChange(const agents::Proposal& proposal,
                                                const std::string& actor, uint64_t change_id) {
  // A recommendation's change has its life so far, with the approval in it.
  if (change_id != 0) {
    EBB_ASSIGN_OR_RETURN(Change approved, parts_.history.GetChange(change_id));
    approved.context = contexts_.id();  // the load that judges it
    return approved;
  }
  Change change = NewChange(proposal.candidate, actor, proposal.reason);
  change.predicted = proposal.predicted;
  AddStep(change, "proposed", proposal.reason);
  if (const absl::Status written = WriteChange(change, "proposed"); !written.ok()) return written;
  return change;
}

void NodeLoop::StartTrial(const agents::Proposal& proposal, const std::string& actor, bool recheck,
                          uint64_t change_id) {
  const auto before =
      incumbent_windows_.Samples(baseline_, goal_, window_ - parts_.config.before_windows_age_max);
  TrialConfig config =
      ForSettleTime(parts_.config.trial, SettleWindows(incumbent_, proposal.candidate));
  // What was proved under this load before needs no screening, but proof again.
  const bool recall = actor.starts_with(kContextActor);
  config.skip_screening = recheck || recall;
  // Journal first: the change, then that it is about to happen.
  const absl::StatusOr<Change> change = ProposedChange(proposal, actor, change_id);
  absl::Status written = change.status();
  if (written.ok()) {
    const std::lock_guard lock(mutex_);
    const RecommendationBook book = book_;
    if (change_id != 0) book_.Close(RecommendationState::kTried, "", parts_.clock.WallMs());
    record_.open = OpenWork{OpenWork::Kind::kTrial, change->id,
                            NameSetting(environment_->space(), proposal.candidate), ""};
    written = WriteLocked({});
    if (!written.ok()) {
      record_.open.reset();
      book_ = book;
    }
  }
  if (!written.ok()) {
    orphans_ = true;
    return SetState(TunerState::kObserving, "no trial, because the history cannot be written: " +
                                                std::string(written.message()));
  }
  envelope_->NoteTrialStarted(static_cast<uint64_t>(window_));
  const std::vector<env::Observation> recent = incumbent_windows_.Observations();
  const LimitWatch limits(goal_.limits, recent);
  env::TripConditions trips = TripsFor(recent, parts_.config.trip_wires);
  limits.Tighten(trips);
  trial_.emplace(ActiveTrial{TrialProtocol(config, before), *change, incumbent_, proposal.candidate,
                             proposal.predicted, trips, limits});
  trial_->recheck = recheck;
  trial_->recall = recall;
  if (const absl::Status applied = ApplyCandidate(*trial_); !applied.ok()) {
    return AbortTrial("the candidate could not be applied: " + std::string(applied.message()));
  }
  trial_->change.applied_ms = parts_.clock.WallMs();
  AddStep(trial_->change, "applied", "applied under a lease and read back");
  SetState(TunerState::kSettling, trial_->change.reason);
  if (const absl::Status told = WriteChange(trial_->change, "applied"); !told.ok()) {
    AbortTrial("the history cannot be written: " + std::string(told.message()));
  }
}

absl::Status NodeLoop::ApplyCandidate(ActiveTrial& trial) {
  env::LeaseTerms terms;
  terms.lease_ms = LeaseMs();
  terms.trips = trial.trips;
  terms.actor = trial.change.actor;
  terms.reason = fmt::format("trial {}: {}", trial.change.id, trial.change.reason);
  EBB_ASSIGN_OR_RETURN(const env::AppliedSetting applied,
                       environment_->Apply(trial.to, setting_version_, terms));
  trial.lease = applied.lease;
  trial.candidate_on = true;
  setting_version_ = applied.version;
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, environment_->ReadSettings());
  if (state.current != trial.to || state.lease != trial.lease) {
    return absl::InternalError("the node runs something else than it was asked to");
  }
  return absl::OkStatus();
}

void NodeLoop::StepTrial(const env::Observation& observation) {
  ActiveTrial& trial = *trial_;
  const env::Setting& expected = trial.candidate_on ? trial.to : trial.from;
  TrialWindow window;
  window.window = window_;
  window.candidate = trial.candidate_on;
  window.usable = observation.valid && reading_.known && observation.setting == expected;
  window.log_index = reading_.log_ratio;
  window.mixture = observation.setting_changed;
  window.backlog_share = observation.metrics.dirty_share;
  const ComponentLogs logs = MeasureComponents(observation.metrics);
  window.idle = observation.valid && !logs.has_read && !logs.has_write;
  const TrialStep step = trial.protocol.Next(window);
  trial.change.windows_used = trial.protocol.windows_used();
  if (LimitsEndTrial(observation, expected) || step.decided) return FinishTrial();
  const TrialPhase phase = trial.protocol.phase();
  SetState(StateOf(phase), fmt::format("trial {}: {}", trial.change.id, trial.protocol.Progress()));
  if (phase != trial.phase_told && phase != TrialPhase::kSettling) {
    trial.phase_told = phase;
    AddStep(trial.change, std::string(TrialPhaseWord(phase)), trial.protocol.Progress());
    // Not worth a sync: after a crash the trial is void anyway.
    HistoryWrite write;
    write.change = &trial.change;
    write.change_event = TrialPhaseWord(phase);
    write.wall_ms = parts_.clock.WallMs();
    write.sync = false;
    if (const absl::Status told = parts_.history.Write(write); !told.ok()) {
      return AbortTrial("the history cannot be written: " + std::string(told.message()));
    }
  }
  if (step.run_candidate != trial.candidate_on) SwitchLeg(step.run_candidate);
}

bool NodeLoop::LimitsEndTrial(const env::Observation& observation, const env::Setting& expected) {
  ActiveTrial& trial = *trial_;
  if (trial.candidate_on && observation.valid && !observation.setting_changed &&
      observation.setting == expected) {
    const std::string broken = trial.limits.Note(observation.metrics);
    if (!broken.empty()) {
      trial.protocol.Tripped(broken);
      return true;
    }
  }
  const TrialVerdict& found = trial.protocol.verdict();
  if (found.verdict != Verdict::kKeep) return false;
  if (const std::string fault = trial.limits.KeepFault(); !fault.empty()) {
    trial.protocol.Tripped(fmt::format("not kept, though {}: {}", found.reason, fault));
  }
  return true;
}

void NodeLoop::SwitchLeg(bool candidate) {
  ActiveTrial& trial = *trial_;
  if (candidate) {
    if (const absl::Status applied = ApplyCandidate(trial); !applied.ok()) {
      AbortTrial("the candidate could not be applied again: " + std::string(applied.message()));
    }
    return;
  }
  const absl::Status reverted =
      RevertLease(trial.lease, "the incumbent's turn in an interleaved pair");
  trial.lease.clear();
  trial.candidate_on = false;
  if (!reverted.ok()) {
    AbortTrial("the node did not go back for the incumbent's turn: " +
               std::string(reverted.message()));
  }
}

absl::Status NodeLoop::RevertLease(const std::string& lease, const std::string& reason) {
  if (!lease.empty()) {
    const absl::StatusOr<uint64_t> reverted = environment_->Revert(lease, reason);
    // NotFound: the lease ran out or tripped, and the node went back by itself.
    if (!reverted.ok() && reverted.status().code() != absl::StatusCode::kNotFound) {
      return reverted.status();
    }
  }
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, environment_->ReadSettings());
  setting_version_ = state.version;
  if (!state.lease.empty() || state.current != state.incumbent) {
    return absl::InternalError("after the revert a candidate still runs on the node");
  }
  return absl::OkStatus();
}

absl::Status NodeLoop::CommitCandidate(const ActiveTrial& trial) {
  const absl::StatusOr<uint64_t> committed = environment_->Commit(trial.lease);
  if (committed.ok()) {
    setting_version_ = *committed;
    return absl::OkStatus();
  }
  // An answer can be lost on the way back from a commit that was carried out.
  const absl::StatusOr<env::SettingState> state = environment_->ReadSettings();
  if (!state.ok() || !state->lease.empty() || state->incumbent != trial.to) {
    return committed.status();
  }
  setting_version_ = state->version;
  return absl::OkStatus();
}

void NodeLoop::AbortTrial(const std::string& reason) {
  EBB_CHECK(trial_.has_value());
  trial_->protocol.Abort(reason);
  FinishTrial();
}

void NodeLoop::FinishTrial() {
  ActiveTrial trial = std::move(*trial_);
  trial_.reset();
  const TrialVerdict& found = trial.protocol.verdict();
  Change& change = trial.change;
  change.verdict = found.verdict;
  change.verdict_reason = found.reason;
  change.measured = found.effect;
  change.smallest_detectable = found.smallest_detectable;
  change.windows_used = found.windows_used;
  change.decided_ms = parts_.clock.WallMs();
  AddStep(change, StepWord(found.verdict), found.reason);
  absl::Status written;
  {
    // The decision is in the journal before the node obeys it.
    const std::lock_guard lock(mutex_);
    if (record_.open) record_.open->decided_change = ChangeToJson(change);
    written = WriteLocked({});
  }
  bool kept = change.verdict == Verdict::kKeep;
  absl::Status obeyed;
  if (kept && written.ok()) {
    obeyed = CommitCandidate(trial);
  }
  if (!kept || !written.ok() || !obeyed.ok()) {
    if (kept) {
      kept = false;
      change.verdict = Verdict::kVoid;
      change.verdict_reason = fmt::format("would have been kept ({}), but {}", found.reason,
                                          std::string((written.ok() ? obeyed : written).message()));
      AddStep(change, "void", change.verdict_reason);
    }
    obeyed = RevertLease(trial.lease, change.verdict_reason);
  }
  if (!trial.recheck && !trial.recall && agent_) {
    agents::Transition transition;
    transition.from = trial.from;
    transition.to = trial.to;
    transition.predicted = trial.predicted;
    transition.measured = change.measured;
    transition.outcome = OutcomeOf(change.verdict);
    {
      const std::lock_guard lock(mutex_);
      if (status_.latest) transition.descriptor = status_.latest->descriptor;
    }
    agent_->Learn(transition);
  }
  // The node cannot be reached: the lease brings it back, and the journal brings us back here.
  if (!obeyed.ok()) return Disconnect(obeyed);
  SettleIncumbent(change, kept, trial.to);
  const auto window = static_cast<uint64_t>(window_);
  if (kept) {
    nulls_in_row_ = 0;
    incumbent_windows_.Clear();
    recheck_.reset();
    if (!trial.recheck && parts_.config.recheck_after_windows > 0) {
      recheck_ =
          Recheck{window_ + parts_.config.recheck_after_windows, change.id, trial.from, trial.to};
    }
  } else if (!trial.recheck && change.verdict != Verdict::kVoid) {
    if (change.verdict == Verdict::kRevert) envelope_->NoteReverted(trial.from, trial.to, window);
    if (!trial.recall) NoteNull();
  }
  settled_window_ = window_ + 1 + SettleWindows(trial.from, trial.to);
  SetState(TunerState::kObserving,
           fmt::format("trial {} ended: {}", change.id, change.verdict_reason));
}

// Writes the end of a change together with what the node now runs, in one batch.
void NodeLoop::SettleIncumbent(const Change& change, bool kept, const env::Setting& to) {
  Change final_change = change;
  HistoryWrite write;
  write.change = &final_change;
  write.change_event = StepWord(change.verdict);
  write.wall_ms = parts_.clock.WallMs();
  if (agent_) write.documents = {{AgentKey(status_.id, agent_->name()), agent_->Save()}};
  ContextTracker contexts = contexts_;
  contexts.NoteEnd(final_change, NameSetting(environment_->space(), incumbent_),
                   NameSetting(environment_->space(), to));
  write.documents.emplace_back(ContextKey(status_.id), contexts.library().Save());
  const std::lock_guard lock(mutex_);
  if (kept) {
    incumbent_ = to;
    record_.incumbent = NameSetting(environment_->space(), to);
    for (const env::KnobChange& knob : change.knobs) {
      const bool by_operator = change.actor.starts_with("operator");
      record_.sources[knob.knob] = by_operator ? "operator" : "tuner";
      record_.since_ms[knob.knob] = change.decided_ms;
    }
  }
  const std::optional<OpenWork> open = std::exchange(record_.open, std::nullopt);
  if (const absl::Status written = WriteLocked(std::move(write)); !written.ok()) {
    // The end stays in the journal, and no trial starts before it could be written.
    record_.open = open;
    return;
  }
  contexts_ = std::move(contexts);
  status_.last_change = final_change;
  ++status_.totals.changes[static_cast<size_t>(change.verdict)];
}

void NodeLoop::StartRecheck() {
  const Recheck recheck = *recheck_;
  recheck_.reset();
  if (incumbent_ != recheck.to) return;  // another change was kept on top since
  agents::Proposal proposal;
  proposal.candidate = recheck.from;
  proposal.reason = fmt::format(
      "re-check of change {}: would the setting before it be better by now?", recheck.change_id);
  const std::string fault =
      envelope_->CandidateFault(environment_->space(), incumbent_, proposal.candidate, Frozen(),
                                /*predicted=*/true, static_cast<uint64_t>(window_));
  if (!fault.empty()) return NoteRefused(fault);
  const auto samples =
      incumbent_windows_.Samples(baseline_, goal_, window_ - parts_.config.before_windows_age_max);
  if (samples.size() < TrialProtocol::kBeforeWindowsMin) {
    return NoteRefused("too few windows of the present setting have an index for a re-check");
  }
  StartTrial(proposal, std::string(kGuardActor), /*recheck=*/true);
}

void NodeLoop::RenewLease() {
  const std::string lease = trial_ ? trial_->lease : holdback_->lease;
  if (lease.empty()) return;
  const absl::Status renewed = environment_->Renew(lease, LeaseMs());
  if (renewed.ok()) return;
  // A lease that is gone shows in the node's events, which say why; anything else is a fault of the
  // connection.
  if (renewed.code() != absl::StatusCode::kNotFound) return Disconnect(renewed);
  HandleNodeEvents(/*setting_is_strange=*/false);
  if (trial_ && trial_->lease == lease) AbortTrial("the node ended the lease without saying why");
  if (holdback_ && holdback_->lease == lease) EndHoldback("the node ended the lease");
}

}  // namespace ebb::engine
