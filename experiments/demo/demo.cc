#include "experiments/demo/demo.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/demo/comparison.h"
#include "experiments/demo/demo_node.h"
#include "experiments/demo/report.h"
#include "experiments/demo/sidecar.h"
#include "experiments/demo/steady_watch.h"
#include "experiments/support/child_process.h"
#include "experiments/support/scratch.h"
#include "fmt/format.h"

namespace ebb::demo {
namespace {

constexpr uint64_t kFillTimeoutMs = 400'000;
constexpr uint64_t kDrainTimeoutMs = 180'000;
constexpr uint64_t kLeaseSlackSeconds = 30;
// A block that lost more than this share of its windows is not compared.
constexpr double kUsableShareMin = 0.6;
// Not a terminal: one line now and then instead of one that moves.
constexpr uint64_t kPlainLineNs = 10 * kNsPerS;

// Progress on stderr: lines that stay, and one that is overwritten.
class Screen {
 public:
  void Say(const std::string& text) {
    Clear();
    fmt::print(stderr, "[demo {:>4} s] {}\n", Seconds(), text);
  }
  void Live(const std::string& text) {
    if (terminal_) {
      fmt::print(stderr, "\r\033[K{}", text.substr(0, 160));
      std::fflush(stderr);
      live_ = true;
    } else if (const uint64_t now_ns = RealClock().MonotonicNs();
               now_ns >= last_plain_ns_ + kPlainLineNs) {
      last_plain_ns_ = now_ns;
      fmt::print(stderr, "[demo {:>4} s] {}\n", Seconds(), text);
    }
  }
  void Clear() {
    if (std::exchange(live_, false)) fmt::print(stderr, "\r\033[K");
  }

 private:
  uint64_t Seconds() const { return (RealClock().MonotonicNs() - start_ns_) / kNsPerS; }

  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  const uint64_t start_ns_ = RealClock().MonotonicNs();
  bool live_ = false;
  uint64_t last_plain_ns_ = 0;
};

class Demo {
 public:
  Demo(const Options& options, const std::atomic<bool>& stop)
      : options_(options), stop_(stop), shape_(DemoShape()), phases_(DemoPhases(shape_)) {}
  ~Demo() { CleanUp(); }

  absl::Status Run() {
    EBB_RETURN_IF_ERROR(MakeScratch());
    EBB_RETURN_IF_ERROR(StartNode());
    EBB_RETURN_IF_ERROR(WarmUp());
    EBB_RETURN_IF_ERROR(StartSidecar());
    EBB_RETURN_IF_ERROR(Tune());
    EBB_RETURN_IF_ERROR(CompareAll());
    return Report();
  }

 private:
  absl::Status MakeScratch();
  absl::Status StartNode();
  // Starts the first load to be tuned and lets it fill the cache as far as it will.
  absl::Status WarmUp();
  absl::Status StartSidecar();
  absl::Status Tune();
  absl::Status TuneUnder(const Stretch& stretch);
  absl::Status CompareAll();
  absl::StatusOr<PhaseResult> ComparePhase(const Phase& phase, Rng& rng);
  absl::StatusOr<env::WindowMetrics> MeasureBlock(const Phase& phase, bool tuned,
                                                  const std::string& label);
  absl::StatusOr<env::WindowMetrics> ObserveBlock(const Phase& phase, const std::string& label);
  absl::Status StartLoad(const Phase& phase);
  absl::Status CheckAllAlive();
  absl::Status Sleep(double seconds);
  absl::Status Report();
  void CleanUp();

  const Options& options_;
  const std::atomic<bool>& stop_;
  const NodeShape shape_;
  const std::vector<Phase> phases_;
  Screen screen_;
  std::string scratch_;
  std::unique_ptr<DemoNode> node_;
  std::unique_ptr<Sidecar> sidecar_;
  std::unique_ptr<experiments::ChildProcess> load_;
  env::Setting default_;
  env::Setting tuned_;
  std::vector<ChangeLine> changes_;
  std::vector<PhaseResult> results_;
};

absl::Status Demo::MakeScratch() {
  const uint64_t bytes = shape_.cache_bytes + shape_.volume_bytes + shape_.volume_bytes / 2;
  const std::string parent = options_.scratch_parent.empty()
                                 ? experiments::ChooseScratchParent(bytes)
                                 : options_.scratch_parent;
  EBB_ASSIGN_OR_RETURN(scratch_, experiments::MakeScratchFolder(parent));
  screen_.Say(fmt::format("scratch folder {}", scratch_));
  return absl::OkStatus();
}

absl::Status Demo::StartNode() {
  EBB_ASSIGN_OR_RETURN(node_, DemoNode::Start(options_, shape_, scratch_, stop_));
  screen_.Say(
      fmt::format("node runs (process {}): volume of {}, cache of {} shaped as {}, {} x {} "
                  "shaped as {} made {} times faster: service times of models, not of this "
                  "machine's disk, and faster so that caches fill in seconds and not in minutes",
                  node_->pid(), FormatBytes(shape_.volume_bytes), FormatBytes(shape_.cache_bytes),
                  shape_.cache_shape, shape_.capacity_devices, FormatBytes(shape_.capacity_bytes),
                  shape_.capacity_shape, shape_.capacity_scale));
  screen_.Say("writing the volume through NBD, in order, then at random, and draining it");
  for (const auto& command :
       {FillCommand(node_->nbd_uri(), shape_), AgeCommand(node_->nbd_uri(), shape_)}) {
    EBB_ASSIGN_OR_RETURN(load_, experiments::ChildProcess::Start(command, scratch_ + "/fill.log"));
    EBB_RETURN_IF_ERROR(load_->Wait(kFillTimeoutMs, &stop_));
    load_.reset();
  }
  EBB_RETURN_IF_ERROR(node_->Drain(kDrainTimeoutMs, stop_));
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, node_->environment().ReadSettings());
  default_ = state.incumbent;
  return node_->CheckHealthy();
}

absl::Status Demo::WarmUp() {
  const std::vector<Stretch> plan = TuningPlan(phases_, options_.goal, options_.minutes);
  const Phase& phase = phases_[plan.front().phase];
  screen_.Say(fmt::format("waiting until the cache is as full as it stays under: {}", phase.title));
  EBB_RETURN_IF_ERROR(StartLoad(phase));
  SteadyWatch watch;
  for (bool steady = false; !steady;) {
    EBB_ASSIGN_OR_RETURN(const env::Observation seen, node_->environment().Observe());
    EBB_RETURN_IF_ERROR(CheckAllAlive());
    steady = watch.Add(seen.metrics.dirty_share);
    screen_.Live(fmt::format("warming up: window {} of at most {}, dirty {:.0f} %", watch.windows(),
                             SteadyWatch::kWindowsMax, 100 * seen.metrics.dirty_share));
  }
  return absl::OkStatus();
}

absl::Status Demo::StartSidecar() {
  EBB_ASSIGN_OR_RETURN(sidecar_, Sidecar::Start({.bin_dir = options_.bin_dir,
                                                 .scratch_dir = scratch_,
                                                 .agent = options_.agent,
                                                 .die_with_demo = !options_.keep}));
  EBB_RETURN_IF_ERROR(sidecar_->Attach(node_->control_socket(), options_.goal_word));
  screen_.Say(fmt::format("sidecar runs (process {}), goal {}: {}/api/v1/nodes", sidecar_->pid(),
                          options_.goal_word, sidecar_->url()));
  return absl::OkStatus();
}

absl::Status Demo::StartLoad(const Phase& phase) {
  EBB_ASSIGN_OR_RETURN(load_, experiments::ChildProcess::Start(
                                  LoadCommand(options_, phase, node_->nbd_uri(), shape_),
                                  fmt::format("{}/load-{}.log", scratch_, phase.id)));
  return absl::OkStatus();
}

// Everything that must run does.
absl::Status Demo::CheckAllAlive() {
  if (stop_.load()) return absl::CancelledError("interrupted");
  if (load_ != nullptr && !load_->IsRunning()) {
    return absl::InternalError(fmt::format("the load ended: {}", load_->LogTail()));
  }
  if (sidecar_ != nullptr) EBB_RETURN_IF_ERROR(sidecar_->CheckAlive());
  return node_->CheckHealthy();
}

absl::Status Demo::Tune() {
  for (const Stretch& stretch : TuningPlan(phases_, options_.goal, options_.minutes)) {
    EBB_RETURN_IF_ERROR(TuneUnder(stretch));
  }
  EBB_RETURN_IF_ERROR(sidecar_->Pause("the demo compares default and tuned"));
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, node_->environment().ReadSettings());
  tuned_ = state.incumbent;
  EBB_ASSIGN_OR_RETURN(changes_, sidecar_->Changes());
  std::string moved;
  for (const env::KnobChange& change : env::Diff(node_->environment().space(), default_, tuned_)) {
    const size_t knob = *node_->environment().space().Find(change.knob);
    moved += fmt::format("{}{} {} -> {}", moved.empty() ? "" : ", ", change.knob,
                         node_->environment().space().FormatValue(knob, change.from),
                         node_->environment().space().FormatValue(knob, change.to));
  }
  screen_.Say(fmt::format("tuning ends after {} changes; tuned setting: {}", changes_.size(),
                          moved.empty() ? "the default" : moved));
  return absl::OkStatus();
}

absl::Status Demo::TuneUnder(const Stretch& stretch) {
  const Phase& phase = phases_[stretch.phase];
  screen_.Say(fmt::format("tuning for {} s under: {}", stretch.seconds, phase.title));
  if (load_ == nullptr) EBB_RETURN_IF_ERROR(StartLoad(phase));  // the first one runs already
  Clock& clock = RealClock();
  const uint64_t end_ns = clock.MonotonicNs() + uint64_t{stretch.seconds} * kNsPerS;
  std::string last_change;
  while (clock.MonotonicNs() < end_ns) {
    clock.SleepUntilNs(clock.MonotonicNs() + kNsPerS);
    EBB_RETURN_IF_ERROR(CheckAllAlive());
    EBB_ASSIGN_OR_RETURN(const SidecarView view, sidecar_->View());
    if (view.last_change != last_change) {
      last_change = view.last_change;
      screen_.Say("change " + last_change);
    }
    screen_.Live(fmt::format(
        "window {} ({} void)  index {}  {}: {}", view.windows, view.void_windows,
        view.index_now ? fmt::format("{:.1f}", *view.index_now) : "-", view.state, view.why));
  }
  load_.reset();
  return absl::OkStatus();
}

absl::Status Demo::CompareAll() {
  screen_.Say(
      tuned_ == default_
          ? "nothing was kept, so there is nothing to compare: default alone is measured"
          : "comparing default and tuned in pairs of blocks, in drawn order; the sidecar is "
            "paused");
  Rng rng(options_.seed);
  for (const Phase& phase : phases_) {
    EBB_ASSIGN_OR_RETURN(PhaseResult result, ComparePhase(phase, rng));
    screen_.Say(fmt::format("{}: index {}", phase.id,
                            tuned_ == default_ ? "100" : result.comparison.ToText()));
    results_.push_back(std::move(result));
  }
  return absl::OkStatus();
}

absl::StatusOr<PhaseResult> Demo::ComparePhase(const Phase& phase, Rng& rng) {
  PhaseResult result{
      .id = phase.id, .title = phase.title, .by_default = {}, .tuned = {}, .comparison = {}};
  // No phase begins with the dirty blocks that the one before left behind.
  EBB_RETURN_IF_ERROR(node_->Drain(kDrainTimeoutMs, stop_));
  if (!phase.restart) EBB_RETURN_IF_ERROR(StartLoad(phase));
  EBB_RETURN_IF_ERROR(Sleep(phase.warm_s));
  std::vector<double> log_indexes;
  std::vector<env::WindowMetrics> all_default;
  std::vector<env::WindowMetrics> all_tuned;
  const bool alone = tuned_ == default_;
  const size_t pairs = options_.pairs > 0 ? options_.pairs : phase.pairs;
  const std::vector<bool> order = DrawOrder(alone ? 1 : pairs, rng);
  for (size_t pair = 0; pair < order.size(); ++pair) {
    BlockPair blocks;
    for (const bool second : {false, true}) {
      const bool tuned = order[pair] != second;
      if (alone && tuned) continue;
      const std::string label = fmt::format("{} pair {}/{} {}", phase.id, pair + 1, order.size(),
                                            tuned ? "tuned" : "default");
      EBB_ASSIGN_OR_RETURN(env::WindowMetrics block, MeasureBlock(phase, tuned, label));
      (tuned ? blocks.tuned : blocks.by_default) = block;
    }
    const bool whole = blocks.by_default.seconds > 0 && (alone || blocks.tuned.seconds > 0);
    if (!whole) {
      ++result.dropped_pairs;
      continue;
    }
    if (!alone) log_indexes.push_back(PairLogIndex(options_.goal, blocks));
    all_default.push_back(blocks.by_default);
    all_tuned.push_back(blocks.tuned);
  }
  load_.reset();
  result.by_default = MergeWindows(all_default);
  if (!alone) result.tuned = MergeWindows(all_tuned);
  result.comparison = Compare(log_indexes);
  return result;
}

// The tuned setting stays the incumbent all through; the default runs under a lease that outlives
// its block a little, so that the node would return by itself if the demo died.
absl::StatusOr<env::WindowMetrics> Demo::MeasureBlock(const Phase& phase, bool tuned,
                                                      const std::string& label) {
  env::NodeEnvironment& environment = node_->environment();
  // A load that begins anew finds the node as clean as it did for the block before.
  if (phase.restart) EBB_RETURN_IF_ERROR(node_->Drain(kDrainTimeoutMs, stop_));
  std::string lease;
  if (!tuned && default_ != tuned_) {
    EBB_ASSIGN_OR_RETURN(const env::SettingState state, environment.ReadSettings());
    const env::LeaseTerms terms = {
        .lease_ms = 1000 * (uint64_t{phase.settle_s} + phase.block_s + kLeaseSlackSeconds),
        .trips = {},
        .actor = "demo",
        .reason = label};
    EBB_ASSIGN_OR_RETURN(const env::AppliedSetting applied,
                         environment.Apply(default_, state.version, terms));
    lease = applied.lease;
  }
  absl::StatusOr<env::WindowMetrics> block = ObserveBlock(phase, label);
  if (!lease.empty()) {
    EBB_RETURN_IF_ERROR(environment.Revert(lease, "the block is over").status());
  }
  return block;
}

// Empty metrics when too few windows were usable.
absl::StatusOr<env::WindowMetrics> Demo::ObserveBlock(const Phase& phase,
                                                      const std::string& label) {
  if (phase.restart) EBB_RETURN_IF_ERROR(StartLoad(phase));
  env::NodeEnvironment& environment = node_->environment();
  std::vector<env::WindowMetrics> usable;
  for (uint32_t window = 0; window < phase.settle_s + phase.block_s; ++window) {
    EBB_ASSIGN_OR_RETURN(env::Observation seen, environment.Observe());
    EBB_RETURN_IF_ERROR(CheckAllAlive());
    const uint64_t ops = seen.metrics.read.ops + seen.metrics.write.ops;
    screen_.Live(fmt::format("{}{}: {} operations, dirty {:.0f} %", label,
                             window < phase.settle_s ? " (settling)" : "", ops,
                             100 * seen.metrics.dirty_share));
    if (window < phase.settle_s) continue;
    if (seen.valid && !seen.setting_changed) usable.push_back(seen.metrics);
  }
  if (phase.restart) load_.reset();
  if (static_cast<double>(usable.size()) < kUsableShareMin * phase.block_s) usable.clear();
  return MergeWindows(usable);
}

absl::Status Demo::Sleep(double seconds) {
  Clock& clock = RealClock();
  const uint64_t end_ns = clock.MonotonicNs() + static_cast<uint64_t>(seconds * 1e9);
  while (clock.MonotonicNs() < end_ns) {
    EBB_RETURN_IF_ERROR(CheckAllAlive());
    clock.SleepUntilNs(std::min(end_ns, clock.MonotonicNs() + kNsPerS / 2));
  }
  return absl::OkStatus();
}

absl::Status Demo::Report() {
  screen_.Clear();
  EBB_ASSIGN_OR_RETURN(changes_, sidecar_->Changes());
  fmt::print("\nDefault against tuned (goal {})\n\n{}\nChanges\n\n{}\n", options_.goal_word,
             ResultTable(results_), ChangeList(changes_));
  fmt::print("History  {}/api/v1/changes\n         {}/ebb --url {} changes\n", sidecar_->url(),
             options_.bin_dir, sidecar_->url());
  std::fflush(stdout);
  if (options_.keep) {
    fmt::print(
        "Kept     node process {}, sidecar process {}, folder {}\n"
        "         end them with: kill {} {} && rm -r {}\n",
        node_->pid(), sidecar_->pid(), scratch_, sidecar_->pid(), node_->pid(), scratch_);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

void Demo::CleanUp() {
  screen_.Clear();
  load_.reset();
  const bool keep = options_.keep && !results_.empty() && !stop_.load();
  if (keep) {
    sidecar_->Leave();
    node_->Leave();
    return;
  }
  sidecar_.reset();
  if (node_ != nullptr) node_->Stop();
  node_.reset();
  if (!scratch_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }
}

}  // namespace

absl::Status RunDemo(const Options& options, const std::atomic<bool>& stop) {
  Demo demo(options, stop);
  return demo.Run();
}

}  // namespace ebb::demo
