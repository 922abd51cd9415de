// What a NodeLoop does about its node: connection, recovery, the node's own doings, requests of
// people.
#include <algorithm>

#include <fmt/format.h>

#include "base/status.h"
#include "engine/history/change_json.h"
#include "engine/loop/node_loop.h"

namespace ebb::engine {
namespace {

constexpr uint64_t kNapNs = 100'000'000;  // a stop request is noticed this fast while disconnected
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr std::string_view kForeign = "foreign";

}  // namespace

absl::Status NodeLoop::WriteLocked(HistoryWrite write) {
  write.documents.emplace_back(RecordKey(record_.id), RecordToJson(record_));
  if (book_.version() != book_saved_version_) {
    write.documents.emplace_back(RecommendationsKey(record_.id), book_.Save());
  }
  absl::Status written = parts_.history.Write(write);
  if (written.ok()) book_saved_version_ = book_.version();
  status_.health = written.ok() ? "ok" : std::string(written.message());
  return written;
}

absl::Status NodeLoop::EditRecord(const std::string& kind, const std::string& text,
                                  const std::function<void(NodeRecord&)>& edit) {
  const std::lock_guard lock(mutex_);
  const NodeRecord before = record_;
  edit(record_);
  HistoryWrite write;
  write.events = {{parts_.clock.WallMs(), record_.id, kind, text}};
  absl::Status written = WriteLocked(std::move(write));
  if (!written.ok()) record_ = before;
  return written;
}

env::Setting NodeLoop::FromNamed(const NamedSetting& named) const {
  return UnnameSetting(environment_->space(), named, incumbent_);
}

void NodeLoop::WaitToReconnect() {
  if (connect_failures_ == 0) return;
  const uint64_t doublings = std::min<uint64_t>(connect_failures_ - 1, 10);
  const uint64_t wait_ms =
      std::min(parts_.config.reconnect_ms_max, parts_.config.reconnect_ms_min << doublings);
  const uint64_t deadline_ns = parts_.clock.MonotonicNs() + wait_ms * kNsPerMs;
  while (!stop_.load() && parts_.clock.MonotonicNs() < deadline_ns) {
    parts_.clock.SleepUntilNs(std::min(deadline_ns, parts_.clock.MonotonicNs() + kNapNs));
  }
}

void NodeLoop::TryConnect() {
  WaitToReconnect();
  if (stop_.load()) return;
  if (const absl::Status connected = Connect(); !connected.ok()) return Disconnect(connected);
  if (connect_failures_ > 0) Tell("connected", "the node can be reached");
  connect_failures_ = 0;
  SetState(TunerState::kObserving, "connected");
}

absl::Status NodeLoop::Connect() {
  const NodeRecord known = record();
  if (!environment_) {
    EBB_ASSIGN_OR_RETURN(environment_, parts_.make_environment(known.control_socket));
  }
  if (KnobsChanged()) {
    // What is remembered by position belongs to the knobs of before.
    space_ = environment_->space();
    envelope_.reset();
    recheck_.reset();
  }
  if (!envelope_) {
    envelope_.emplace(parts_.config.envelope, environment_->window_seconds());
    EBB_RETURN_IF_ERROR(SeedBudget());
  }
  config_fault_ = envelope_->ConfigFault(environment_->space());
  if (baseline_.windows() == 0) {
    EBB_ASSIGN_OR_RETURN(const auto saved, parts_.history.Document(BaselineKey(known.id)));
    // A baseline that cannot be read is learned again.
    if (saved) baseline_.Load(*saved).IgnoreError();
  }
  LoadContexts();
  LoadUplift();
  EBB_RETURN_IF_ERROR(Reconcile());
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<agents::Agent> agent,
                       parts_.make_agent(known.id, environment_->info(), environment_->space()));
  EBB_ASSIGN_OR_RETURN(const auto state,
                       parts_.history.Document(AgentKey(known.id, agent->name())));
  if (state && !agent->Load(*state).ok()) {
    EBB_ASSIGN_OR_RETURN(agent,
                         parts_.make_agent(known.id, environment_->info(), environment_->space()));
  }
  agent_ = std::move(agent);
  return absl::OkStatus();
}

void NodeLoop::Disconnect(const absl::Status& why) {
  if (environment_ && agent_) Tell("disconnected", std::string(why.message()));
  // A trial that is open stays open in the journal: Reconcile decides it when the node is back.
  environment_.reset();
  agent_.reset();
  trial_.reset();
  holdback_.reset();
  DropBlock("the node could not be reached");
  incumbent_windows_.Clear();
  shift_.Reset();
  contexts_.NewStretch();
  if (envelope_) envelope_->SetContext("");
  usable_in_row_ = 0;
  ++connect_failures_;
  SetState(TunerState::kDisconnected, std::string(why.message()));
  const std::lock_guard lock(mutex_);
  status_.index_now.reset();
}

absl::Status NodeLoop::Reconcile() {
  EBB_ASSIGN_OR_RETURN(env::SettingState state, environment_->ReadSettings());
  const bool first = record().before_attach.empty();
  EBB_ASSIGN_OR_RETURN(const std::vector<env::NodeEvent> events,
                       environment_->Events(record().last_node_event));
  std::string story;
  for (const env::NodeEvent& event : events) {
    if (event.kind == env::NodeEvent::Kind::kLeaseExpired ||
        event.kind == env::NodeEvent::Kind::kTripped ||
        event.kind == env::NodeEvent::Kind::kForeignChange ||
        (event.kind == env::NodeEvent::Kind::kApplied && event.lease.empty())) {
      story = event.text;
    }
  }
  node_epoch_ = environment_->info().epoch;
  setting_version_ = state.version;
  {
    const std::lock_guard lock(mutex_);
    if (!events.empty()) record_.last_node_event = events.back().number;
  }
  if (first) return FirstContact(state);
  incumbent_ = state.incumbent;
  incumbent_ = FromNamed(record().incumbent);
  standard_ = FromNamed(record().standard);
  EBB_RETURN_IF_ERROR(AdoptKnobs());
  EBB_RETURN_IF_ERROR(ResolveOpenWork(story));
  EBB_RETURN_IF_ERROR(VoidOrphans());
  EBB_ASSIGN_OR_RETURN(state, environment_->ReadSettings());
  setting_version_ = state.version;
  if (state.incumbent != incumbent_) EBB_RETURN_IF_ERROR(RecordForeignChange(state, story));
  settled_window_ = window_ + 2;
  return absl::OkStatus();
}

absl::Status NodeLoop::AdoptKnobs() {
  const NamedSetting known = record().incumbent;
  const NamedSetting present = NameSetting(environment_->space(), incumbent_);
  std::string news;
  for (const auto& [knob, value] : present) {
    if (!known.contains(knob)) news += fmt::format(", {} is new, at {}", knob, value);
  }
  for (const auto& [knob, value] : known) {
    if (!present.contains(knob)) news += fmt::format(", {} (was {}) is gone", knob, value);
  }
  if (news.empty()) return absl::OkStatus();
  return EditRecord("knobs", "the node has other knobs than before" + news,
                    [&](NodeRecord& record) {
                      record.incumbent = present;
                      record.standard = NameSetting(environment_->space(), standard_);
                    });
}

absl::Status NodeLoop::FirstContact(const env::SettingState& state) {
  incumbent_ = standard_ = state.incumbent;
  const NamedSetting named = NameSetting(environment_->space(), state.incumbent);
  return EditRecord("attached",
                    fmt::format("attached to {}; its present setting is the default that the index "
                                "compares with and that restore brings back",
                                environment_->info().name),
                    [&](NodeRecord& record) {
                      record.before_attach = named;
                      record.standard = named;
                      record.incumbent = named;
                    });
}

absl::Status NodeLoop::ResolveOpenWork(const std::string& node_story) {
  const std::optional<OpenWork> open = record().open;
  if (!open) return absl::OkStatus();
  switch (open->kind) {
    case OpenWork::Kind::kTrial:
      return ResolveTrial(*open, node_story);
    case OpenWork::Kind::kRestore:
      return ResumeRestore(*open);
    case OpenWork::Kind::kHoldback:
      break;
  }
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, environment_->ReadSettings());
  if (!state.lease.empty() && state.current == FromNamed(open->to)) {
    EBB_RETURN_IF_ERROR(RevertLease(state.lease, "the holdback was interrupted"));
  }
  return EditRecord("holdback", "the holdback was interrupted; the incumbent runs again",
                    [](NodeRecord& record) { record.open.reset(); });
}

absl::Status NodeLoop::ResolveTrial(const OpenWork& open, const std::string& node_story) {
  const env::Setting to = FromNamed(open.to);
  EBB_ASSIGN_OR_RETURN(env::SettingState state, environment_->ReadSettings());
  Change change;
  if (open.decided_change.empty()) {
    EBB_ASSIGN_OR_RETURN(change, parts_.history.GetChange(open.change_id));
  } else {
    EBB_ASSIGN_OR_RETURN(change, ChangeFromJson(open.decided_change));
  }
  const bool candidate_runs = !state.lease.empty() && state.current == to;
  bool kept = change.verdict == Verdict::kKeep;
  if (kept && candidate_runs) {
    const absl::StatusOr<uint64_t> committed = environment_->Commit(state.lease);
    if (!committed.ok() && committed.status().code() != absl::StatusCode::kNotFound) {
      return committed.status();
    }
    EBB_ASSIGN_OR_RETURN(state, environment_->ReadSettings());
  } else if (candidate_runs) {
    EBB_RETURN_IF_ERROR(RevertLease(state.lease, "the trial was interrupted"));
  }
  kept = kept && state.incumbent == to && state.current == to;
  if (!kept && (change.verdict == Verdict::kPending || change.verdict == Verdict::kKeep)) {
    const std::string was_decided = change.verdict == Verdict::kKeep
                                        ? "it was to be kept (" + change.verdict_reason + "), but "
                                        : "";
    change.verdict = Verdict::kVoid;
    change.verdict_reason = fmt::format(
        "{}the sidecar or its connection was interrupted during this trial; the node {}",
        was_decided,
        candidate_runs
            ? "was put back on its incumbent"
            : "was found on its incumbent" + (node_story.empty() ? "" : " (" + node_story + ")"));
    change.decided_ms = parts_.clock.WallMs();
    AddStep(change, "void", change.verdict_reason);
  }
  SettleIncumbent(change, kept, to);
  return absl::OkStatus();
}

absl::Status NodeLoop::VoidOrphans() {
  ChangeQuery query;
  query.verdict = Verdict::kPending;
  query.limit = 500;
  const NodeRecord known = record();
  const std::optional<Recommendation> advice = OpenRecommendation();
  EBB_ASSIGN_OR_RETURN(std::vector<Change> pending, parts_.history.Changes(known.id, query));
  for (Change& change : pending) {
    if (advice && change.id == advice->change_id) continue;
    if (known.open && change.id == known.open->change_id) continue;
    change.verdict = Verdict::kVoid;
    change.verdict_reason = "the sidecar stopped before this was applied";
    change.decided_ms = parts_.clock.WallMs();
    AddStep(change, "void", change.verdict_reason);
    EBB_RETURN_IF_ERROR(WriteChange(change, "void"));
  }
  orphans_ = false;
  return absl::OkStatus();
}

void NodeLoop::HandleNodeEvents(bool setting_is_strange) {
  const absl::StatusOr<std::vector<env::NodeEvent>> events =
      environment_->Events(record().last_node_event);
  if (!events.ok()) return Disconnect(events.status());
  std::string strange = setting_is_strange ? "somebody else changed the setting" : "";
  std::string told;  // likewise, where the node said so
  bool restarted = environment_->info().epoch != node_epoch_;
  for (const env::NodeEvent& event : *events) {
    {
      const std::lock_guard lock(mutex_);
      record_.last_node_event = event.number;
    }
    switch (event.kind) {
      case env::NodeEvent::Kind::kLeaseExpired:
      case env::NodeEvent::Kind::kTripped:
        EndByNode(event);
        break;
      case env::NodeEvent::Kind::kApplied:
        // Without a lease it was no trial: somebody set a new incumbent (or we, for a restore; then
        // it is the version that we read back).
        if (event.lease.empty() && event.setting_version != setting_version_) {
          strange = told = "somebody else changed the setting: " + event.text;
        }
        break;
      case env::NodeEvent::Kind::kForeignChange:
        strange = told = "somebody else changed the setting: " + event.text;
        break;
      case env::NodeEvent::Kind::kStarted:
        restarted = true;
        break;
      case env::NodeEvent::Kind::kDrain:
      case env::NodeEvent::Kind::kError:
      case env::NodeEvent::Kind::kDamage:
      case env::NodeEvent::Kind::kStuck:
      case env::NodeEvent::Kind::kRecovered:
      case env::NodeEvent::Kind::kDevice:
        Tell("node_event", event.text);
        break;
      default:
        break;
    }
    if (!environment_) return;
  }
  if (!restarted && strange.empty()) return;
  const std::string reason = restarted ? "the node was restarted" : strange;
  if (restarted) Tell("node_restarted", reason);
  node_epoch_ = environment_->info().epoch;
  if (trial_) AbortTrial(reason);
  if (environment_ && holdback_) EndHoldback(reason);
  if (!environment_) return;
  const absl::StatusOr<env::SettingState> state = environment_->ReadSettings();
  if (!state.ok()) return Disconnect(state.status());
  setting_version_ = state->version;
  // Otherwise somebody else's candidate is on trial: it ends by itself.
  if (restarted || state->lease.empty()) settled_window_ = window_ + 2;
  if (state->incumbent != incumbent_) {
    RecordForeignChange(*state, reason).IgnoreError();  // shows in the status; then again later
  } else if (!told.empty()) {
    Tell("node_event", told + "; by now it is what it was");
  }
}

void NodeLoop::EndByNode(const env::NodeEvent& event) {
  const bool tripped = event.kind == env::NodeEvent::Kind::kTripped;
  if (trial_ && trial_->lease == event.lease) {
    if (tripped) {
      trial_->protocol.Tripped("the node's own trip wire: " + event.text);
      FinishTrial();
    } else {
      AbortTrial("the lease ran out before it was renewed: " + event.text);
    }
  } else if (holdback_ && holdback_->lease == event.lease) {
    if (tripped) holdback_not_before_ = window_ + parts_.config.back_off_windows_max;
    EndHoldback(event.text);
  }
}

absl::Status NodeLoop::RecordForeignChange(const env::SettingState& state,
                                           const std::string& text) {
  Change change = NewChange(state.incumbent, kForeign,
                            text.empty() ? "somebody else changed the setting" : text);
  if (change.knobs.empty()) return absl::OkStatus();
  change.applied_ms = change.decided_ms = change.proposed_ms;
  change.verdict = Verdict::kKeep;
  change.verdict_reason =
      "somebody else's value wins; these knobs are pinned until an operator releases them";
  AddStep(change, "observed", change.reason);
  {
    const std::lock_guard lock(mutex_);
    const NodeRecord before = record_;
    record_.incumbent = NameSetting(environment_->space(), state.incumbent);
    for (const env::KnobChange& knob : change.knobs) {
      record_.pins.emplace(knob.knob, kForeign);
      record_.standard[knob.knob] = knob.to;
      record_.sources[knob.knob] = kForeign;
      record_.since_ms[knob.knob] = change.decided_ms;
    }
    HistoryWrite write;
    write.change = &change;
    write.change_event = "foreign";
    write.wall_ms = change.decided_ms;
    if (absl::Status written = WriteLocked(std::move(write)); !written.ok()) {
      // Not taken over before it is told: the node's setting stays a strange one until then, and
      // nothing is tried on top of it.
      record_ = before;
      return written;
    }
    status_.last_change = change;
    ++status_.totals.changes[static_cast<size_t>(change.verdict)];
  }
  DropBlock("somebody else changed the setting");
  incumbent_ = state.incumbent;
  standard_ = FromNamed(record().standard);
  incumbent_windows_.Clear();
  recheck_.reset();
  nulls_in_row_ = 0;
  // The default is another one now, so what was learned about it is void.
  baseline_.Clear();
  learned_in_load_ = 0;
  return absl::OkStatus();
}

void NodeLoop::RestoreAtExit() {
  const NodeRecord known = record();
  if (known.on_exit != OnExit::kRestore || known.before_attach.empty()) return;
  absl::Status restored = absl::UnavailableError("the node cannot be reached: " + Status().why);
  if (environment_) {
    std::string told;
    if (incumbent_ == NearestLegal(FromNamed(known.before_attach), told)) return;  // nothing to do
    {
      const std::lock_guard lock(mutex_);
      record_.restore_actor = "ebbd: on_exit";
    }
    restored = DoRestore();
  }
  if (restored.ok()) return;
  Tell("restore", "the setting from before attach could not be restored at exit: " +
                      std::string(restored.message()));
}

env::Setting NodeLoop::NearestLegal(const env::Setting& wanted, std::string& told) const {
  const env::KnobSpace& space = environment_->space();
  env::Setting legal = wanted;
  for (size_t i = 0; i < space.size(); ++i) {
    legal.values[i] = space.Clamp(i, static_cast<double>(wanted.values[i]));
    if (legal.values[i] == wanted.values[i]) continue;
    told +=
        fmt::format("{}{} was {}, which this node does not allow any more: {}",
                    told.empty() ? "; " : ", ", space[i].name,
                    space.FormatValue(i, wanted.values[i]), space.FormatValue(i, legal.values[i]));
  }
  return legal;
}

absl::Status NodeLoop::DoRestore() {
  if (trial_) AbortTrial("an operator asked for the setting from before attach");
  if (environment_ && holdback_) EndHoldback("an operator asked for a restore");
  if (!environment_) return absl::UnavailableError("the restore waits for the node");
  // The end of something else that could not be written or carried out comes first, and so does
  // what somebody else changed until now.
  EBB_RETURN_IF_ERROR(ResolveOpenWork(""));
  if (record().open) return absl::UnavailableError("the restore waits for the history");
  EBB_ASSIGN_OR_RETURN(const env::SettingState now, environment_->ReadSettings());
  if (now.incumbent != incumbent_) {
    EBB_RETURN_IF_ERROR(RecordForeignChange(now, "somebody else changed the setting"));
  }
  std::string told;
  const env::Setting target = NearestLegal(FromNamed(record().before_attach), told);
  Change change =
      NewChange(target, record().restore_actor, "back to the setting from before attach" + told);
  AddStep(change, "proposed", change.reason);
  EBB_RETURN_IF_ERROR(WriteChange(change, "proposed"));
  OpenWork open{OpenWork::Kind::kRestore, change.id, NameSetting(environment_->space(), target),
                ""};
  {
    const std::lock_guard lock(mutex_);
    record_.open = open;
    record_.restore_wanted = false;
    absl::Status written = WriteLocked({});
    if (!written.ok()) {
      record_.open.reset();
      record_.restore_wanted = true;
      return written;
    }
  }
  return ResolveRestore(open);
}

absl::Status NodeLoop::ResumeRestore(const OpenWork& open) {
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, environment_->ReadSettings());
  if (state.incumbent == incumbent_ || state.incumbent == FromNamed(open.to)) {
    return ResolveRestore(open);
  }
  EBB_ASSIGN_OR_RETURN(Change change, parts_.history.GetChange(open.change_id));
  GiveUpRestore(change, "the restore was interrupted, and somebody else changed the setting since");
  return absl::OkStatus();
}

absl::Status NodeLoop::ResolveRestore(const OpenWork& open) {
  const env::Setting target = FromNamed(open.to);
  EBB_ASSIGN_OR_RETURN(Change change, parts_.history.GetChange(open.change_id));
  const absl::StatusOr<uint64_t> version =
      environment_->SetIncumbent(target, change.actor, change.reason);
  if (absl::IsInvalidArgument(version.status())) {
    GiveUpRestore(change, "the node refused it: " + std::string(version.status().message()));
    return absl::OkStatus();
  }
  EBB_RETURN_IF_ERROR(version.status());
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, environment_->ReadSettings());
  setting_version_ = *version;
  if (state.current != target && state.version == *version) {
    return absl::InternalError("after the restore the node runs another setting");
  }
  change.applied_ms = change.decided_ms = parts_.clock.WallMs();
  change.verdict = Verdict::kKeep;
  change.verdict_reason = "restored and read back";
  AddStep(change, "restored", change.verdict_reason);
  DropBlock("the setting from before attach came back");
  SettleIncumbent(change, /*kept=*/true, target);
  incumbent_windows_.Clear();
  recheck_.reset();
  settled_window_ = window_ + 2;
  return absl::OkStatus();
}

void NodeLoop::GiveUpRestore(Change& change, const std::string& why) {
  change.decided_ms = parts_.clock.WallMs();
  change.verdict = Verdict::kVoid;
  change.verdict_reason = why + "; the node keeps its setting";
  AddStep(change, "void", change.verdict_reason);
  SettleIncumbent(change, /*kept=*/false, incumbent_);
}

absl::Status NodeLoop::SetGoal(const Goal& goal, const std::string& actor) {
  if (record().goal == goal) return absl::OkStatus();
  return EditRecord("goal",
                    fmt::format("{} set the goal to {}; it was {}", actor, GoalText(goal),
                                GoalText(record().goal)),
                    [&](NodeRecord& record) { record.goal = goal; });
}

absl::Status NodeLoop::SetMode(Mode mode, const std::string& actor) {
  if (record().mode == mode) return absl::OkStatus();
  return EditRecord("mode", fmt::format("{} set the mode to {}", actor, ModeWord(mode)),
                    [&](NodeRecord& record) { record.mode = mode; });
}

absl::Status NodeLoop::SetOnExit(OnExit on_exit, const std::string& actor) {
  if (record().on_exit == on_exit) return absl::OkStatus();
  return EditRecord(
      "on_exit", fmt::format("{} set what happens when ebbd stops: {}", actor, OnExitWord(on_exit)),
      [&](NodeRecord& record) { record.on_exit = on_exit; });
}

absl::Status NodeLoop::Pause(const std::string& reason, std::optional<int64_t> until_ms,
                             const std::string& actor) {
  if (until_ms && *until_ms <= parts_.clock.WallMs()) {
    return absl::InvalidArgumentError("the end of the pause has passed already");
  }
  return EditRecord("paused", fmt::format("{} paused tuning: {}", actor, reason),
                    [&](NodeRecord& record) {
                      record.paused = true;
                      record.paused_until_ms = until_ms;
                      record.pause_reason = reason;
                    });
}

absl::Status NodeLoop::Resume(const std::string& actor) {
  if (!record().paused) return absl::OkStatus();
  return EditRecord("resumed", fmt::format("{} resumed tuning", actor), [](NodeRecord& record) {
    record.paused = false;
    record.paused_until_ms.reset();
    record.pause_reason.clear();
  });
}

absl::Status NodeLoop::Restore(const std::string& actor) {
  return EditRecord(
      "restore",
      fmt::format("{} asked for the setting from before attach; tuning is paused", actor),
      [&](NodeRecord& record) {
        record.restore_wanted = true;
        record.restore_actor = actor;
        record.paused = true;
        record.paused_until_ms.reset();
        record.pause_reason = "restored by " + actor;
      });
}

absl::Status NodeLoop::Pin(const std::string& knob, bool pinned, const std::string& actor) {
  const std::vector<KnobState> knobs = Knobs();
  const bool known = std::any_of(knobs.begin(), knobs.end(),
                                 [&](const KnobState& state) { return state.spec.name == knob; });
  if (!known) return absl::NotFoundError(fmt::format("the node has no knob {}", knob));
  const std::vector<std::string>& never = parts_.config.envelope.never_touch;
  if (!pinned && std::find(never.begin(), never.end(), knob) != never.end()) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is on the never-touch list of the configuration, so only a change there and a restart "
        "of the daemon release it",
        knob));
  }
  return EditRecord(pinned ? "pinned" : "unpinned",
                    fmt::format("{} {} {}", actor, pinned ? "pinned" : "released", knob),
                    [&](NodeRecord& record) {
                      if (pinned) {
                        record.pins[knob] = actor;
                      } else {
                        record.pins.erase(knob);
                      }
                    });
}

void NodeLoop::RequestDetach(bool restore, const std::string& actor) {
  {
    const std::lock_guard lock(mutex_);
    record_.restore_actor = actor;
  }
  restore_on_detach_.store(restore);
  detach_.store(true);
  RequestStop();
}

void NodeLoop::Forget() {
  std::string text = "detached; the node keeps its setting";
  if (restore_on_detach_.load() && environment_) {
    const absl::Status restored = DoRestore();
    if (!restored.ok()) {
      text = "detached; the restore failed: " + std::string(restored.message());
    } else if (incumbent_ == FromNamed(record().before_attach)) {
      text = "detached; the node is back on its setting from before attach";
    } else {
      text = "detached; the node did not take its setting from before attach";
    }
  }
  HistoryWrite write;
  const std::string id = record().id;
  write.events = {{parts_.clock.WallMs(), id, "detached", text}};
  write.documents = {{RecordKey(id), std::nullopt},
                     {BaselineKey(id), std::nullopt},
                     {ContextKey(id), std::nullopt},
                     {RecommendationsKey(id), std::nullopt},
                     {UpliftKey(id), std::nullopt}};
  const auto agent_states = parts_.history.Documents(AgentKey(id, ""));
  if (agent_states.ok()) {
    for (const auto& [key, state] : *agent_states) write.documents.emplace_back(key, std::nullopt);
  }
  absl::Status written = parts_.history.Write(write);
  if (!written.ok()) SetState(TunerState::kDisconnected, std::string(written.message()));
}

}  // namespace ebb::engine
