#include "engine/loop/node_loop.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "absl/strings/ascii.h"
#include "base/check.h"
#include "base/status.h"

namespace ebb::engine {
namespace {

constexpr size_t kIncumbentWindowsMax = 90;
constexpr int64_t kMinuteMs = 60'000;
constexpr uint32_t kBaselineSaveWindows = 60;
constexpr uint32_t kUnknownWindowsBeforeHoldback = 3;
constexpr uint32_t kRefusalWindowsMax = 60;

bool IsIdle(const env::Observation& observation) {
  const ComponentLogs logs = MeasureComponents(observation.metrics);
  return !HasLoad(observation.descriptor) || (!logs.has_read && !logs.has_write);
}

}  // namespace

NodeLoop::NodeLoop(const NodeLoopParts& parts, NodeRecord record,
                   std::unique_ptr<env::Environment> environment)
    : parts_(parts),
      environment_(std::move(environment)),
      baseline_(parts.config.baseline),
      shift_(parts.config.shift),
      contexts_(parts.config.shift.reference_windows_min),
      incumbent_windows_(kIncumbentWindowsMax),
      holdback_schedule_(parts.config.holdback_share, std::hash<std::string>{}(record.id)),
      record_(std::move(record)) {
  goal_ = record_.goal;
  mode_ = record_.mode;
  paused_ = record_.paused;
  status_.id = record_.id;
  status_.control_socket = record_.control_socket;
  status_.why = "not connected yet";
  status_.health = "ok";
  LoadBook();
  Publish(nullptr);
}

NodeLoop::~NodeLoop() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

void NodeLoop::Start() {
  EBB_CHECK(!thread_.joinable());
  thread_ = std::thread([this] {
    while (!stop_.load()) RunOneWindow();
    Leave(detach_.load() ? "the node is being detached" : "the sidecar stops");
    if (detach_.load()) {
      Forget();
    } else {
      RestoreAtExit();
    }
    stopped_.store(true);
  });
}

void NodeLoop::Leave(const std::string& reason) {
  if (!environment_) return;
  if (trial_) AbortTrial(reason);
  if (holdback_) EndHoldback(reason);
}

void NodeLoop::RunOneWindow() {
  if (!environment_ || !agent_) {
    ObeyRequests();
    TryConnect();
    Publish(nullptr);
    return;
  }
  absl::StatusOr<env::Observation> observation = environment_->Observe();
  if (!observation.ok()) {
    Disconnect(observation.status());
    Publish(nullptr);
    return;
  }
  ++window_;
  if (KnobsChanged()) {
    Disconnect(absl::AbortedError("the node came back with other knobs"));
    return Publish(nullptr);
  }
  ProcessWindow(*observation);
  Publish(environment_ ? &*observation : nullptr);
}

void NodeLoop::ProcessWindow(const env::Observation& observation) {
  const bool on_trial = trial_ && trial_->candidate_on;
  const bool on_holdback = holdback_.has_value();
  reading_ = EvaluateIndex(baseline_, goal_, observation);
  const bool idle = observation.valid && IsIdle(observation);
  if (!observation.valid || !reading_.known) {
    unusable_reason_ = idle ? "the clients ask for nothing" : reading_.unknown_reason;
    usable_in_row_ = 0;
  } else {
    ++usable_in_row_;
    unusable_reason_.clear();
  }
  unknown_in_row_ = observation.valid && !idle && !reading_.known ? unknown_in_row_ + 1 : 0;
  const absl::Status appended = parts_.history.AppendPoint(
      status_.id, MakeSeriesPoint(observation, reading_, on_trial, on_holdback));
  NoteFault(appended);

  HandleNodeEvents(!trial_ && !holdback_ && observation.setting != incumbent_ &&
                   !observation.setting_changed && window_ >= settled_window_);
  if (!environment_) return;
  if (trial_) {
    StepTrial(observation);
  } else if (holdback_) {
    StepHoldback(observation);
  } else {
    LearnFromIncumbent(observation);
  }
  if (observation.valid && !idle) JudgeLoad(observation);
  ObeyRequests();
  if (!environment_) return;
  MindSchedule();
  if (!environment_) return;
  if (trial_ || holdback_) {
    RenewLease();
  } else {
    ConsiderNextStep(observation);
  }
}

void NodeLoop::JudgeLoad(const env::Observation& observation) {
  const std::optional<std::string> shift = shift_.Next(FeaturesOf(observation.descriptor));
  if (!shift) return FollowContext(observation);
  const std::string text = "the load became a different one: " + *shift;
  if (trial_) AbortTrial(text);
  DropBlock("the load shifted");
  contexts_.NewStretch();
  if (envelope_) envelope_->SetContext("");
  HistoryWrite write;
  write.events = {{parts_.clock.WallMs(), status_.id, "shift", text}};
  write.documents = {{ContextKey(status_.id), contexts_.library().Save()}};
  const std::lock_guard lock(mutex_);
  WriteLocked(std::move(write)).IgnoreError();  // shows in the status
  incumbent_windows_.Clear();
  nulls_in_row_ = 0;
  refusals_told_.clear();
  learned_in_load_ = 0;
  next_proposal_window_ = window_;
}

void NodeLoop::LearnFromIncumbent(const env::Observation& observation) {
  if (!observation.valid || observation.setting_changed || window_ < settled_window_ ||
      observation.setting != incumbent_ || IsIdle(observation)) {
    return;
  }
  incumbent_windows_.Add(window_, observation, reading_.known);
  NoteTunedWindow(observation);
  MindLimits(observation);
  if (!IncumbentIsDefault()) return;
  baseline_.Learn(FeaturesOf(observation.descriptor), MeasureComponents(observation.metrics));
  ++learned_in_load_;
  if (++learned_since_save_ < kBaselineSaveWindows) return;
  learned_since_save_ = 0;
  HistoryWrite write;
  write.documents = {{BaselineKey(status_.id), baseline_.Save()},
                     {ContextKey(status_.id), contexts_.library().Save()}};
  write.sync = false;
  if (const absl::Status saved = parts_.history.Write(write); !saved.ok()) {
    NoteFault(saved);
  }
}

bool NodeLoop::WaitsForBaseline(const env::Observation& observation) {
  const LoopConfig& config = parts_.config;
  if (observation.valid && !IsIdle(observation)) {
    const double wanted = config.learn_windows;
    // A load that comes in bursts looks a little different in every window: then the number of
    // windows counts as well as their nearness.
    progress_ = std::max(baseline_.NearWindows(FeaturesOf(observation.descriptor)) / wanted,
                         learned_in_load_ / (3 * wanted));
    progress_ = std::min(1.0, progress_);
  }
  if (progress_ >= 1) return false;
  if (!IncumbentIsDefault() && tuning_allowed() &&
      unknown_in_row_ >= kUnknownWindowsBeforeHoldback) {
    StartHoldback("the default was not seen under this load yet");
    return true;
  }
  SetState(TunerState::kLearningBaseline,
           IncumbentIsDefault()
               ? fmt::format("learning what the default gives under this load ({:.0f} %)",
                             100 * progress_)
               : "the default was not seen under this load yet, so the index is unknown");
  return true;
}

void NodeLoop::ConsiderNextStep(const env::Observation& observation) {
  if (record().open) {
    // The end of something could not be written or carried out: first that, then anything new.
    if (const absl::Status settled = Reconcile(); !settled.ok()) return Disconnect(settled);
    if (record().open) {
      return SetState(TunerState::kObserving,
                      "no trial now: the history cannot be written: " + Status().health);
    }
  }
  if (orphans_ && !VoidOrphans().ok()) {
    return SetState(TunerState::kObserving,
                    "no trial now: the history cannot be written: " + Status().health);
  }
  if (observation.setting != incumbent_ && !observation.setting_changed &&
      window_ >= settled_window_) {
    return SetState(TunerState::kObserving,
                    "somebody else has a candidate on trial on this node; waiting for its end");
  }
  if (paused_) return SetState(TunerState::kPaused, "paused: " + record().pause_reason);
  if (rest_.kind != Rest::Kind::kNone) {
    return SetState(TunerState::kObserving, "no trial now: " + rest_.why);
  }
  if (!config_fault_.empty()) {
    return SetState(TunerState::kObserving, "no trial now: " + config_fault_);
  }
  if (WaitsForBaseline(observation)) return;
  if (mode_ == Mode::kObserve) {
    return SetState(TunerState::kObserving, "observing only, as the mode says");
  }
  const Situation situation{static_cast<uint64_t>(window_), observation.metrics.dirty_share,
                            observation.metrics.draining_by_operator, usable_in_row_,
                            unusable_reason_};
  if (const std::string fault = envelope_->SituationFault(situation); !fault.empty()) {
    return SetState(TunerState::kObserving, "no trial now: " + fault);
  }
  if (window_ < settled_window_) {
    return SetState(TunerState::kSettling,
                    "waiting until the latest change of setting has settled");
  }
  const bool recheck_due = recheck_ && window_ >= recheck_->due_window;
  if (AttendHoldback()) return;
  const std::optional<Recommendation> advice = OpenRecommendation();
  const bool approved = advice && advice->state == RecommendationState::kApproved;
  if (!recheck_due && !approved && window_ < next_proposal_window_) {
    return SetState(TunerState::kConverged,
                    fmt::format("{}; next proposal in {} windows", hold_reason_,
                                next_proposal_window_ - window_));
  }
  const size_t measured =
      incumbent_windows_.CountKnown(window_ - parts_.config.before_windows_age_max);
  if (measured < parts_.config.before_windows_min) {
    return SetState(TunerState::kObserving,
                    fmt::format("measuring the present setting: {} of {} windows", measured,
                                parts_.config.before_windows_min));
  }
  if (tuning_allowed() && recheck_due) return StartRecheck();
  ConsiderProposal(observation);
}

void NodeLoop::ConsiderProposal(const env::Observation& observation) {
  if (MindRecommendation()) return;
  const std::vector<bool> frozen = Frozen();
  const agents::ProposalContext context{environment_->space(),
                                        observation,
                                        incumbent_,
                                        goal_.kind,
                                        environment_->info().device_class,
                                        frozen,
                                        parts_.config.envelope.knobs_per_trial_max};
  std::optional<agents::Proposal> proposal = Recall();
  const bool recall = proposal.has_value();
  if (!recall) proposal = agent_->Propose(context);
  if (!proposal) {
    hold_reason_ = agent_->hold_reason();
    return SetState(TunerState::kConverged, hold_reason_);
  }
  SetState(TunerState::kProposing, proposal->reason);
  std::string fault = envelope_->CandidateFault(
      environment_->space(), incumbent_, proposal->candidate, frozen,
      recall || proposal->predicted.has_value(), static_cast<uint64_t>(window_));
  if (fault.empty()) {
    const std::lock_guard lock(mutex_);
    fault = book_.RejectionOf(environment_->space(),
                              env::Diff(environment_->space(), incumbent_, proposal->candidate),
                              parts_.config.envelope.tabu_unit_distance, parts_.clock.WallMs());
  }
  const std::vector<LogSample> samples =
      incumbent_windows_.Samples(baseline_, goal_, window_ - parts_.config.before_windows_age_max);
  if (fault.empty() && samples.size() < TrialProtocol::kBeforeWindowsMin) {
    fault = "too few windows of the present setting have an index";
  }
  if (fault.empty() && proposal->predicted) {
    const double provable =
        SmallestProvableGain(EstimateNoise(samples, parts_.config.trial.priors).noise_sd);
    if (proposal->predicted->mean < provable) {
      fault = fmt::format(
          "the predicted gain of {:.1f} % is below the {:.1f} % that could be proved at this noise",
          100 * proposal->predicted->mean, 100 * provable);
    }
  }
  if (!fault.empty() && recall) {
    contexts_.EndRecall(std::string(GoalName(goal_)));
    return NoteRefused(fault);
  }
  if (!fault.empty()) {
    agents::Transition transition;
    transition.from = incumbent_;
    transition.to = proposal->candidate;
    agent_->Learn(transition);
    return NoteRefused(fault);
  }
  refused_in_row_ = 0;
  const std::string actor = recall ? RecallActor() : fmt::format("agent:{}", agent_->name());
  if (mode_ != Mode::kAuto) {
    if (recall) contexts_.EndRecall(std::string(GoalName(goal_)));
    return Recommend(*proposal, actor);
  }
  StartTrial(*proposal, actor, /*recheck=*/false);
}

void NodeLoop::NoteRefused(const std::string& why) {
  const uint32_t wait = std::min(kRefusalWindowsMax, 1U << std::min(refused_in_row_, 10U));
  ++refused_in_row_;
  next_proposal_window_ = window_ + wait;
  hold_reason_ = "a proposal was refused: " + why;
  SetState(TunerState::kConverged, hold_reason_);
  // Once is enough, whatever its numbers and whatever else is refused in between.
  std::string words = why;
  std::erase_if(words, absl::ascii_isdigit);
  if (refusals_told_.insert(words).second) Tell("refused", hold_reason_);
}

void NodeLoop::NoteNull() {
  const LoopConfig& config = parts_.config;
  if (++nulls_in_row_ < config.nulls_before_back_off) return;
  const uint32_t doublings = std::min(10U, nulls_in_row_ - config.nulls_before_back_off);
  next_proposal_window_ =
      window_ + std::min(config.back_off_windows_max, config.back_off_windows << doublings);
  hold_reason_ = fmt::format("the last {} proposals brought nothing", nulls_in_row_);
}

void NodeLoop::ObeyRequests() {
  const NodeRecord wanted = record();
  if (wanted.paused && wanted.paused_until_ms && parts_.clock.WallMs() >= *wanted.paused_until_ms) {
    if (const absl::Status resumed = Resume("ebbd: the pause ended"); !resumed.ok()) {
      NoteFault(resumed);
    }
    return ObeyRequests();
  }
  // In mode approve runs only what a person approved, so a trial of mode auto ends there as well.
  const bool stopped_tuning = (wanted.paused && !paused_) ||
                              (mode_ == Mode::kAuto && wanted.mode != Mode::kAuto) ||
                              (mode_ == Mode::kApprove && !MayApply(wanted.mode));
  if (stopped_tuning) {
    const std::string why = wanted.paused
                                ? "tuning was paused: " + wanted.pause_reason
                                : fmt::format("the mode is now {}", ModeWord(wanted.mode));
    if (trial_) AbortTrial(why);
    if (holdback_) EndHoldback(why);
  }
  ExpireRecommendation();
  const std::optional<Recommendation> advice = OpenRecommendation();
  const bool stands = Recommends(wanted.mode) && (wanted.mode == Mode::kApprove || !advice ||
                                                  advice->state == RecommendationState::kWaiting);
  if (!stands) {
    CloseRecommendation(RecommendationState::kWithdrawn,
                        fmt::format("the mode is now {}", ModeWord(wanted.mode)));
  }
  if (trial_ && !trial_->recheck) {
    for (const env::KnobChange& knob : trial_->change.knobs) {
      if (!wanted.pins.contains(knob.knob)) continue;
      AbortTrial(knob.knob + " was pinned");
      break;
    }
  }
  if (wanted.goal != goal_) {
    if (trial_) AbortTrial(fmt::format("the goal is now {}", GoalText(wanted.goal)));
    CloseRecommendation(RecommendationState::kWithdrawn, "the goal changed");
    if (envelope_) envelope_->ForgetTabu();
    recheck_.reset();
    nulls_in_row_ = 0;
    refusals_told_.clear();
    next_proposal_window_ = window_;
    minute_.clear();
  }
  goal_ = wanted.goal;
  mode_ = wanted.mode;
  paused_ = wanted.paused;
  TellAgentOfAdvice();
  if (wanted.restore_wanted && environment_ && agent_) {
    if (const absl::Status restored = DoRestore(); !restored.ok()) Disconnect(restored);
  }
}

void NodeLoop::SetState(TunerState state, std::string why) {
  const std::lock_guard lock(mutex_);
  status_.state = state;
  status_.why = std::move(why);
}

void NodeLoop::NoteFault(const absl::Status& fault) {
  const std::lock_guard lock(mutex_);
  status_.health = fault.ok() ? "ok" : std::string(fault.message());
}

void NodeLoop::Tell(const std::string& kind, const std::string& text) {
  HistoryWrite write;
  write.events = {{parts_.clock.WallMs(), status_.id, kind, text}};
  write.sync = false;
  if (const absl::Status told = parts_.history.Write(write); !told.ok()) NoteFault(told);
}

std::vector<bool> NodeLoop::Frozen() const {
  const std::lock_guard lock(mutex_);
  std::vector<bool> frozen;
  for (const env::KnobSpec& knob : environment_->space().knobs()) {
    frozen.push_back(!knob.agent_owned || record_.pins.contains(knob.name) ||
                     envelope_->NeverTouches(knob.name));
  }
  return frozen;
}

uint32_t NodeLoop::SettleWindows(const env::Setting& from, const env::Setting& to) const {
  double seconds = 0;
  for (size_t i = 0; i < from.values.size(); ++i) {
    if (from.values[i] == to.values[i]) continue;
    seconds = std::max(seconds, static_cast<double>(environment_->space()[i].settle_seconds));
  }
  const auto windows = static_cast<uint32_t>(std::ceil(seconds / environment_->window_seconds()));
  return std::clamp(windows, 1U, parts_.config.settle_windows_max);
}

uint64_t NodeLoop::LeaseMs() const {
  const double windows_ms = 1000 * environment_->window_seconds() * parts_.config.lease_windows;
  return std::max(parts_.config.lease_ms_min, static_cast<uint64_t>(windows_ms));
}

void NodeLoop::Publish(const env::Observation* observation) {
  const std::lock_guard lock(mutex_);
  status_.connected = environment_ != nullptr && agent_ != nullptr;
  status_.goal = record_.goal;
  status_.mode = record_.mode;
  status_.on_exit = record_.on_exit;
  status_.paused = record_.paused;
  status_.paused_until_ms = record_.paused_until_ms;
  status_.pause_reason = record_.pause_reason;
  status_.baseline_progress = progress_;
  status_.setting_version = setting_version_;
  status_.uplift = MakeUpliftReport();
  status_.context = contexts_.Status(std::string(GoalName(goal_)));
  if (agent_) status_.agent = agent_->name();
  if (!status_.connected) return;
  status_.info = environment_->info();
  if (observation != nullptr) {
    ++status_.windows;
    if (!observation->valid) ++status_.void_windows;
    if (observation->valid) AddToTotals(observation->metrics, status_.totals);
    status_.latest = *observation;
    status_.index_now = reading_.known ? std::optional<double>(reading_.value()) : std::nullopt;
    if (reading_.known) minute_.emplace_back(observation->wall_ms, reading_.value());
    while (!minute_.empty() && minute_.front().first <= observation->wall_ms - kMinuteMs) {
      minute_.pop_front();
    }
    status_.index_minute.reset();
    for (const auto& [wall_ms, index] : minute_) {
      status_.index_minute =
          status_.index_minute.value_or(0) + index / static_cast<double>(minute_.size());
    }
  }
  knobs_.clear();
  const env::KnobSpace& space = environment_->space();
  const env::Setting& running = observation != nullptr ? observation->setting : incumbent_;
  for (size_t i = 0; i < space.size(); ++i) {
    KnobState knob;
    knob.spec = space[i];
    knob.value = running.values[i];
    knob.incumbent = incumbent_.values[i];
    knob.pinned = record_.pins.contains(space[i].name) || envelope_->NeverTouches(space[i].name);
    const auto source = record_.sources.find(space[i].name);
    knob.source = source == record_.sources.end() ? "default" : source->second;
    const auto since = record_.since_ms.find(space[i].name);
    knob.since_ms = since == record_.since_ms.end() ? 0 : since->second;
    knobs_.push_back(std::move(knob));
  }
}

NodeStatus NodeLoop::Status() const {
  const std::lock_guard lock(mutex_);
  NodeStatus status = status_;
  // Requests show at once, though the loop obeys at the end of the window.
  status.goal = record_.goal;
  status.mode = record_.mode;
  status.on_exit = record_.on_exit;
  status.paused = record_.paused;
  status.paused_until_ms = record_.paused_until_ms;
  status.pause_reason = record_.pause_reason;
  return status;
}

std::vector<KnobState> NodeLoop::Knobs() const {
  const std::lock_guard lock(mutex_);
  return knobs_;
}

NodeRecord NodeLoop::record() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

}  // namespace ebb::engine
