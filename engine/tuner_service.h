// TunerService is what the API talks to: every attached node, its state, history and switches.
//
// Thread-safe; calls return within milliseconds and never wait for a window. Times are Unix
// milliseconds. Errors: NotFound (no such node or change), InvalidArgument (every fault named),
// FailedPrecondition (refused in this state, says why), Aborted (stale version).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agents/agent.h"
#include "base/histogram.h"
#include "engine/goal/goal.h"
#include "engine/recommendation.h"
#include "env/environment.h"

namespace ebb::engine {

enum class Mode : uint8_t { kObserve, kRecommend, kApprove, kAuto };
// What a node keeps when the sidecar stops: what was kept of the tuning, or the setting from before
// attach. A sidecar that is killed leaves what is trusted.
enum class OnExit : uint8_t { kKeep, kRestore };
// kPending: on trial, no verdict yet.
enum class Verdict : uint8_t { kPending, kKeep, kRevert, kInconclusive, kVoid };
enum class TunerState : uint8_t {
  kDisconnected,
  kLearningBaseline,
  kObserving,
  kProposing,
  kSettling,
  kScreening,
  kConfirming,
  kConverged,
  kPaused
};

using agents::Effect;  // relative change of the index: +0.10 = 10 % better

struct ChangeStep {  // life cycle of a change
  int64_t wall_ms = 0;
  std::string step;  // proposed, applied, settling, screening, confirming, kept, reverted, ...
  std::string text;
};

// One change of the node's knobs, whoever made it.
struct Change {
  uint64_t id = 0;  // ascending in time, unique for this daemon
  std::string node;
  int64_t proposed_ms = 0;
  int64_t applied_ms = 0;  // 0: never applied
  int64_t decided_ms = 0;  // 0: pending
  std::string actor;       // "agent:hill_climb", "operator:root", "context:c3", "node", "foreign"
  std::string goal;
  std::string context;  // id of the load it was made under; empty: not known
  std::vector<env::KnobChange> knobs;
  std::string reason;
  std::optional<Effect> predicted;
  std::optional<Effect> measured;
  double smallest_detectable = 0;  // the smallest effect this trial could have seen; 0 unknown
  uint32_t windows_used = 0;
  Verdict verdict = Verdict::kPending;
  std::string verdict_reason;
  std::vector<ChangeStep> steps;
};

struct ChangeQuery {
  std::optional<int64_t> from_ms;  // by proposed_ms, inclusive
  std::optional<int64_t> to_ms;    // exclusive
  std::string knob;                // empty: any
  std::optional<Verdict> verdict;
  std::string actor;                  // prefix; empty: any
  std::string goal;                   // its word; empty: any
  std::string context;                // empty: any
  std::optional<uint64_t> before_id;  // page: changes older than this one
  uint32_t limit = 100;               // 1 to 500, newest first
};

struct KnobState {
  env::KnobSpec spec;
  int64_t value = 0;
  int64_t incumbent = 0;
  bool pinned = false;
  std::string source;  // default, tuner, operator, foreign
  int64_t since_ms = 0;
};

// The load that a node is under, and what is remembered about it.
struct ContextStatus {
  std::string id;           // empty: too new to be told from others
  std::string load;         // in words
  bool remembered = false;  // it was there before, and came back
  uint64_t windows = 0;     // seen of it, ever
  int64_t first_seen_ms = 0;
  // Of its best known setting for the present goal, and the change that kept it (0: none).
  std::optional<Effect> best_effect;
  uint64_t best_change = 0;
};

// What holdback measured over a span: windows of the tuned setting against windows of the default
// between them.
struct UpliftSpan {
  std::optional<Effect> effect;  // tuned over default; none: `missing` says why
  std::string missing;
  uint64_t blocks = 0;
  uint64_t long_blocks = 0;  // of them, made longer because a slow knob differs from the default
  uint64_t default_windows = 0;
  uint64_t tuned_windows = 0;
  int64_t from_ms = 0;  // first window of the first block
  int64_t to_ms = 0;    // last window of the last one
};
struct UpliftReport {
  UpliftSpan since_attach;
  UpliftSpan recent;
  uint32_t recent_hours = 0;
  uint64_t dropped_blocks = 0;  // begun and not fit for a comparison
  std::string last_dropped;     // why the latest was not
};

// Sums over this attachment's windows, for the counters of monitoring systems.
struct OpTotals {
  uint64_t ops = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  LatencyHistogram latency;
};
struct NodeTotals {
  OpTotals read;
  OpTotals write;
  OpTotals flush;
  uint64_t destaged_bytes = 0;
  uint64_t capacity_written_bytes = 0;
  double throttle_seconds = 0;
  double cpu_seconds = 0;
  std::array<uint64_t, 5> changes{};  // by Verdict; kPending stays 0
};

struct NodeStatus {
  std::string id;
  std::string control_socket;
  bool connected = false;
  std::string health;  // "ok" or one sentence
  env::EnvironmentInfo info;
  Goal goal;
  OnExit on_exit = OnExit::kKeep;
  std::string limits_broken;  // which hard limits of the goal the trusted setting breaks now
  Mode mode = Mode::kAuto;
  std::string agent;
  bool paused = false;
  std::optional<int64_t> paused_until_ms;
  std::string pause_reason;
  TunerState state = TunerState::kDisconnected;
  std::string why;                     // the state in one sentence
  double baseline_progress = 0;        // 0 to 1 while learning
  std::optional<double> index_now;     // 100 = default under this load
  std::optional<double> index_minute;  // mean of the last minute
  uint64_t windows = 0;
  uint64_t void_windows = 0;
  uint64_t setting_version = 0;
  ContextStatus context;
  UpliftReport uplift;
  std::optional<Change> last_change;
  std::optional<env::Observation> latest;
  NodeTotals totals;
};

struct SeriesPoint {
  int64_t wall_ms = 0;
  // NaN where the window had no such value.
  double index = 0;
  double read_p50_us = 0, read_p99_us = 0, write_p50_us = 0, write_p99_us = 0;
  double read_iops = 0, write_iops = 0, read_mibps = 0, write_mibps = 0;
  double dirty_share = 0, read_hit_share = 0, destage_mibps = 0, throttle_share = 0;
  bool on_trial = false;
  bool holdback = false;
};

struct SeriesColumn {
  std::string_view name;
  double SeriesPoint::*value;
};
// Every number of a SeriesPoint. The history stores them in this order: new ones go to the end.
inline constexpr std::array<SeriesColumn, 13> kSeriesColumns = {{
    {"index", &SeriesPoint::index},
    {"read_p50_us", &SeriesPoint::read_p50_us},
    {"read_p99_us", &SeriesPoint::read_p99_us},
    {"write_p50_us", &SeriesPoint::write_p50_us},
    {"write_p99_us", &SeriesPoint::write_p99_us},
    {"read_iops", &SeriesPoint::read_iops},
    {"write_iops", &SeriesPoint::write_iops},
    {"read_mibps", &SeriesPoint::read_mibps},
    {"write_mibps", &SeriesPoint::write_mibps},
    {"dirty_share", &SeriesPoint::dirty_share},
    {"read_hit_share", &SeriesPoint::read_hit_share},
    {"destage_mibps", &SeriesPoint::destage_mibps},
    {"throttle_share", &SeriesPoint::throttle_share},
}};

// One window, or several as one.
struct SeriesBucket {
  // Their wall_ms is that of the last window; on_trial and holdback tell whether any window was.
  // NaN where no window had the number.
  SeriesPoint mean;
  SeriesPoint min;
  SeriesPoint max;
  uint32_t windows = 0;
  std::array<uint32_t, kSeriesColumns.size()> counts{};  // windows that had the number
};

struct Series {
  int64_t bucket_ms = 0;  // time that each bucket stands for; 0: each is one window
  std::vector<SeriesBucket> buckets;
};

class TunerService {
 public:
  virtual ~TunerService() = default;

  // Connects to the node behind `control_socket` and starts watching it; `id` is chosen from its
  // name when empty.
  virtual absl::StatusOr<std::string> Attach(const std::string& control_socket,
                                             const std::string& id, const Goal& goal,
                                             Mode mode) = 0;
  // Stops tuning the node; keeps its setting, or restores the one before attach.
  virtual absl::Status Detach(const std::string& node, bool restore) = 0;
  virtual std::vector<NodeStatus> Nodes() = 0;
  virtual absl::StatusOr<NodeStatus> Node(const std::string& node) = 0;

  virtual absl::Status SetGoal(const std::string& node, const Goal& goal,
                               const std::string& actor) = 0;
  virtual absl::Status SetMode(const std::string& node, Mode mode, const std::string& actor) = 0;
  virtual absl::Status SetOnExit(const std::string& node, OnExit on_exit,
                                 const std::string& actor) = 0;
  virtual absl::Status Pause(const std::string& node, const std::string& reason,
                             std::optional<int64_t> until_ms, const std::string& actor) = 0;
  virtual absl::Status Resume(const std::string& node, const std::string& actor) = 0;
  // The setting from before attach, at once; tuning is paused afterwards.
  virtual absl::Status Restore(const std::string& node, const std::string& actor) = 0;

  virtual absl::StatusOr<std::vector<KnobState>> Knobs(const std::string& node) = 0;
  virtual absl::Status Pin(const std::string& node, const std::string& knob, bool pinned,
                           const std::string& actor) = 0;

  // The latest recommendations, newest first; with an empty `node`, of every attached node.
  virtual absl::StatusOr<std::vector<Recommendation>> Recommendations(const std::string& node) = 0;
  // Approves (mode approve only) or rejects; the answer is its new state.
  virtual absl::StatusOr<Recommendation> DecideRecommendation(const std::string& id, bool approve,
                                                              const std::string& reason,
                                                              const std::string& actor) = 0;

  // With an empty `node`: of every node, detached ones too.
  virtual absl::StatusOr<std::vector<Change>> Changes(const std::string& node,
                                                      const ChangeQuery& query) = 0;
  virtual absl::StatusOr<Change> GetChange(uint64_t id) = 0;
  // The windows that ended in [from_ms, to_ms), oldest first: each of them when they are at most
  // max_points and still kept, else buckets of equal time, at most max_points; then the ends of
  // the span are rounded outwards to what is kept of that time.
  virtual absl::StatusOr<Series> ReadSeries(const std::string& node, int64_t from_ms, int64_t to_ms,
                                            size_t max_points) = 0;
};

// Words used in JSON, on the command line and in the history.
std::string_view ModeWord(Mode mode);           // observe, recommend, approve, auto
std::string_view VerdictWord(Verdict verdict);  // pending, keep, revert, inconclusive, void
std::string_view TunerStateWord(TunerState state);
std::string_view GoalWord(agents::GoalKind goal);  // read, write, balanced
std::string_view OnExitWord(OnExit on_exit);       // keep, restore
std::optional<OnExit> ParseOnExit(std::string_view word);
std::optional<Mode> ParseMode(std::string_view word);
std::optional<Verdict> ParseVerdict(std::string_view word);
std::optional<agents::GoalKind> ParseGoal(std::string_view word);

}  // namespace ebb::engine
