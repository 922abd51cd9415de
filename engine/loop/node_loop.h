// NodeLoop tunes one node: it watches, proposes, tries, decides and writes down why.
//
//   disconnected -> learning baseline -> observing / proposing -> trial -> commit or revert
//                                                  ^                          |
//                                                  +------ converged <--------+
//
// One thread calls RunOneWindow again and again (Start does that); it owns the environment and the
// agent. Everything else may be called from any thread: it changes the record, durably, and the
// loop obeys at the end of the window under way. Journal first: the history knows an intent before
// the node does, and the node holds every candidate under a lease, so the object may be destroyed
// (or its process killed) between any two steps; the next loop over the same history finds out what
// happened and says so.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "engine/context/context_tracker.h"
#include "engine/guard/envelope.h"
#include "engine/guard/limit_watch.h"
#include "engine/guard/shift_detector.h"
#include "engine/guard/trial_protocol.h"
#include "engine/history/history.h"
#include "engine/index/performance_index.h"
#include "engine/loop/loop_config.h"
#include "engine/loop/node_record.h"
#include "engine/loop/recommendation_book.h"
#include "engine/loop/window_log.h"
#include "engine/tuner_service.h"
#include "engine/uplift/uplift_ledger.h"

namespace ebb::engine {

inline constexpr std::string_view kGuardActor = "guard";

struct NodeLoopParts {
  Clock& clock;
  History& history;
  EnvironmentFactory make_environment;
  AgentFactory make_agent;
  LoopConfig config;
};

class NodeLoop {
 public:
  // `environment`: already connected, or null: the loop connects by itself.
  NodeLoop(const NodeLoopParts& parts, NodeRecord record,
           std::unique_ptr<env::Environment> environment);
  // Stops. An open trial ends as void and the node goes back to its incumbent.
  ~NodeLoop();
  NodeLoop(const NodeLoop&) = delete;
  NodeLoop& operator=(const NodeLoop&) = delete;

  void Start();
  // Asks the thread to end after the window under way.
  void RequestStop() { stop_.store(true); }
  // As RequestStop, and then the node is forgotten (its history stays); with `restore`, it first
  // gets the setting from before attach.
  void RequestDetach(bool restore, const std::string& actor);
  bool stopped() const { return stopped_.load(); }

  // One window of work; waits for the environment's window, or for the next attempt to connect.
  void RunOneWindow();
  // What Stop does to the node, for callers without a thread.
  void Leave(const std::string& reason);
  // The setting from before attach when the sidecar stops, where the node's on_exit says so.
  void RestoreAtExit();

  NodeStatus Status() const;
  std::vector<KnobState> Knobs() const;
  NodeRecord record() const;

  absl::Status SetGoal(const Goal& goal, const std::string& actor);
  absl::Status SetMode(Mode mode, const std::string& actor);
  absl::Status SetOnExit(OnExit on_exit, const std::string& actor);
  absl::Status Pause(const std::string& reason, std::optional<int64_t> until_ms,
                     const std::string& actor);
  absl::Status Resume(const std::string& actor);
  absl::Status Restore(const std::string& actor);
  absl::Status Pin(const std::string& knob, bool pinned, const std::string& actor);
  std::vector<Recommendation> Recommendations() const;  // newest first
  absl::StatusOr<Recommendation> DecideRecommendation(const std::string& id, bool approve,
                                                      const std::string& reason,
                                                      const std::string& actor);

 private:
  struct ActiveTrial {
    TrialProtocol protocol;
    Change change;
    env::Setting from;
    env::Setting to;
    std::optional<agents::Effect> predicted;
    env::TripConditions trips;
    LimitWatch limits;
    std::string lease = {};  // empty while the incumbent's leg runs
    bool candidate_on = true;
    bool recheck = false;  // asked for by the guard, not by the agent
    bool recall = false;   // the best known setting of a remembered load, likewise
    TrialPhase phase_told = TrialPhase::kSettling;
  };
  struct Holdback {
    std::string lease;
    uint32_t windows_left = 0;
    uint32_t settle_left = 0;
  };
  struct Recheck {
    int64_t due_window = 0;
    uint64_t change_id = 0;
    env::Setting from;
    env::Setting to;
  };

  // node_loop.cc: windows and proposals.
  void ProcessWindow(const env::Observation& observation);
  void JudgeLoad(const env::Observation& observation);
  void LearnFromIncumbent(const env::Observation& observation);
  void ConsiderNextStep(const env::Observation& observation);
  void ConsiderProposal(const env::Observation& observation);
  void NoteRefused(const std::string& why);
  void NoteNull();
  void ObeyRequests();
  void Publish(const env::Observation* observation);
  void SetState(TunerState state, std::string why);
  // A fault of the history shows in the status until a write succeeds.
  void NoteFault(const absl::Status& fault);
  // An event that is worth telling but not worth a wait for the disk.
  void Tell(const std::string& kind, const std::string& text);
  std::vector<bool> Frozen() const;
  uint32_t SettleWindows(const env::Setting& from, const env::Setting& to) const;
  uint64_t LeaseMs() const;
  static bool MayApply(Mode mode) { return mode == Mode::kApprove || mode == Mode::kAuto; }
  static bool Recommends(Mode mode) { return mode == Mode::kRecommend || mode == Mode::kApprove; }
  // Holdback blocks and re-checks: of what was kept they need nobody's approval.
  bool tuning_allowed() const { return MayApply(mode_) && !paused_; }
  bool WaitsForBaseline(const env::Observation& observation);
  // Writes `write` together with the record; mutex_ must be held.
  absl::Status WriteLocked(HistoryWrite write);
  // Changes the record and writes it with an event, or does neither.
  absl::Status EditRecord(const std::string& kind, const std::string& text,
                          const std::function<void(NodeRecord&)>& edit);

  // node_loop_context.cc: remembered loads.
  void FollowContext(const env::Observation& observation);
  // The best known setting of the present load, where it is another than the incumbent.
  std::optional<agents::Proposal> Recall() const;
  void LoadContexts();
  std::string RecallActor() const { return std::string(kContextActor) + contexts_.id(); }
  // node_loop_limits.cc: what keeps the loop's hands off.
  // In a maintenance window the node returns to its incumbent; quiet hours only stop what is new.
  void MindSchedule();
  // Whether the trusted setting keeps to the goal's hard limits; tells when it begins not to.
  void MindLimits(const env::Observation& observation);
  // Why the default may not run: it would move a knob that nobody may touch. Else empty.
  std::string HoldbackFault() const;
  // Trials of the last hour, whichever sidecar made them.
  absl::Status SeedBudget();

  // node_loop_advice.cc: proposals that wait for a person.
  void LoadBook();
  void Recommend(const agents::Proposal& proposal, const std::string& actor);
  std::optional<Recommendation> OpenRecommendation() const;
  // Looks after the open recommendation; false: there is none, so a new proposal may be made.
  bool MindRecommendation();
  void StartApproved(const Recommendation& advice);
  void CloseRecommendation(RecommendationState state, const std::string& reason);
  void ExpireRecommendation();
  void TellAgentOfAdvice();
  env::Setting CandidateOf(const Recommendation& advice) const;
  std::string AdviceFault(const Recommendation& advice) const;

  // node_loop_holdback.cc: the default's turns, and what they prove.
  HoldbackPlan PlanOfHoldback() const;
  // Whether this window belongs to a holdback that is due or not over yet.
  bool AttendHoldback();
  void StartHoldback(const std::string& why);
  void StepHoldback(const env::Observation& observation);
  void EndHoldback(const std::string& why);
  void NoteTunedWindow(const env::Observation& observation);
  void DropBlock(const std::string& why);
  UpliftReport MakeUpliftReport() const;
  void LoadUplift();

  // node_loop_trial.cc: trials and their ends.
  // `change_id`: of the recommendation that was approved; 0: a new change.
  void StartTrial(const agents::Proposal& proposal, const std::string& actor, bool recheck,
                  uint64_t change_id = 0);
  absl::StatusOr<Change> ProposedChange(const agents::Proposal& proposal, const std::string& actor,
                                        uint64_t change_id);
  void StartRecheck();
  void StepTrial(const env::Observation& observation);
  // True when a hard limit of the goal decides: the candidate goes, or is not kept.
  bool LimitsEndTrial(const env::Observation& observation, const env::Setting& expected);
  void SwitchLeg(bool candidate);
  absl::Status ApplyCandidate(ActiveTrial& trial);
  // OK when the candidate is the incumbent now, by the node's own account.
  absl::Status CommitCandidate(const ActiveTrial& trial);
  void AbortTrial(const std::string& reason);
  void FinishTrial();
  void SettleIncumbent(const Change& change, bool kept, const env::Setting& to);
  void RenewLease();
  // From the incumbent to `candidate`, now, for the goal and the load of now.
  Change NewChange(const env::Setting& candidate, std::string_view actor,
                   const std::string& reason) const;
  void AddStep(Change& change, const std::string& step, const std::string& text) const;
  absl::Status WriteChange(Change& change, const std::string& event);

  // node_loop_node.cc: the connection, the node's own doings, recovery, restore.
  void TryConnect();
  absl::Status Connect();
  void WaitToReconnect();
  void Disconnect(const absl::Status& why);
  // The node came back with another set of knobs: settings by position mean nothing any more.
  bool KnobsChanged() const { return environment_->space() != space_; }
  absl::Status Reconcile();
  absl::Status FirstContact(const env::SettingState& state);
  // Knobs that the record does not know keep the value they have; told once.
  absl::Status AdoptKnobs();
  absl::Status ResolveOpenWork(const std::string& node_story);
  absl::Status ResolveTrial(const OpenWork& open, const std::string& node_story);
  absl::Status ResolveRestore(const OpenWork& open);
  // Ends the trial or holdback that `event` is about.
  void EndByNode(const env::NodeEvent& event);
  void Forget();
  // Ends changes that are told as proposed and were never applied.
  absl::Status VoidOrphans();
  void HandleNodeEvents(bool setting_is_strange);
  absl::Status RecordForeignChange(const env::SettingState& state, const std::string& text);
  absl::Status DoRestore();
  // The legal setting nearest to `wanted`; `told` says which knobs could not have their value.
  env::Setting NearestLegal(const env::Setting& wanted, std::string& told) const;
  // Ends a restore that can never succeed, instead of trying it for ever.
  void GiveUpRestore(Change& change, const std::string& why);
  // Goes on with a restore of before an interruption, unless somebody else was faster.
  absl::Status ResumeRestore(const OpenWork& open);
  // Back to the incumbent, whatever lease is held; NotFound (the node did it already) is fine.
  absl::Status RevertLease(const std::string& lease, const std::string& reason);
  // Knobs that `named` does not know stay as they are in the incumbent.
  env::Setting FromNamed(const NamedSetting& named) const;
  bool IncumbentIsDefault() const { return incumbent_ == standard_; }

  NodeLoopParts parts_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> detach_{false};
  std::atomic<bool> restore_on_detach_{false};

  // Owned by the loop's thread.
  std::unique_ptr<env::Environment> environment_;
  std::unique_ptr<agents::Agent> agent_;
  BaselineModel baseline_;
  ShiftDetector shift_;
  ContextTracker contexts_;
  std::optional<Envelope> envelope_;
  WindowLog incumbent_windows_;
  std::optional<ActiveTrial> trial_;
  std::optional<Holdback> holdback_;
  HoldbackSchedule holdback_schedule_;
  std::optional<HoldbackBlock> block_;  // begun with a holdback, ends some windows after it
  int64_t block_deadline_window_ = 0;
  UpliftLedger uplift_;
  std::optional<Recheck> recheck_;
  env::KnobSpace space_;  // of the node when it was connected: what the settings here are of
  env::Setting incumbent_;
  env::Setting standard_;  // what the index calls the default
  uint64_t setting_version_ = 0;
  uint64_t node_epoch_ = 0;
  int64_t window_ = 0;          // numbers every window of this object
  int64_t settled_window_ = 0;  // windows before it still show an earlier setting
  int64_t next_proposal_window_ = 0;
  int64_t holdback_not_before_ = 0;  // the node tripped on the last one
  uint32_t usable_in_row_ = 0;
  uint32_t unknown_in_row_ = 0;
  uint32_t limits_broken_in_row_ = 0;
  uint32_t nulls_in_row_ = 0;
  uint32_t learned_since_save_ = 0;
  bool orphans_ = false;  // a change was told as proposed, and what should follow was not written
  std::string unusable_reason_;
  std::set<std::string> refusals_told_;  // their words, since the load and the goal are these
  std::string config_fault_;             // of the envelope with this node's knobs
  Rest rest_;                            // as it was told last
  std::string advice_told_;              // id of the recommendation whose end the agent waits for
  std::string hold_reason_;              // why the agent or the back-off waits
  uint64_t reconnect_ms_ = 0;
  IndexReading reading_;
  uint64_t connect_failures_ = 0;
  std::deque<std::pair<int64_t, double>> minute_;  // (wall_ms, index)
  uint32_t refused_in_row_ = 0;
  uint32_t learned_in_load_ = 0;  // windows of the default since the last shift
  double progress_ = 0;           // of learning the baseline for this load, 0 to 1
  // Copies of what callers asked for, refreshed once a window.
  Goal goal_;
  Mode mode_ = Mode::kObserve;
  bool paused_ = false;

  // Shared with callers, under mutex_. The loop's thread is the only one that writes `record_`
  // fields about the node itself (incumbent, open, before_attach, ...).
  mutable std::mutex mutex_;
  NodeRecord record_;
  RecommendationBook book_;
  uint64_t book_saved_version_ = 0;
  NodeStatus status_;
  std::vector<KnobState> knobs_;
};

}  // namespace ebb::engine
