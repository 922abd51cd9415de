// SimpleModelEnvironment: a store made of formulas, for the tests of the engine and the agents.
//
// Each knob has a known best place and a known loss away from it, so that a test can say what the
// right answer is; noise is AR(1) with a given coefficient of variation, so that it can say how
// often the guard may be wrong. Time is simulated: Observe moves the given clock by one window. It
// is no model of any real store (that is env/twin). Same seed and same calls, same numbers. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "env/environment.h"

namespace ebb::env {

// What one knob does: performance is multiplied by exp(-depth * distance^2), where distance is how
// far the knob stands from `best_unit` on its own scale, 1 at the farther end of the range. Depth 0
// is a sham knob; best_unit 0 or 1 with a large depth is a harmful one.
struct KnobResponse {
  double best_unit = 0.5;
  double read_depth = 0;
  double write_depth = 0;
};

// From window `window` on (0 = the first), the load is this.
struct LoadStep {
  uint64_t window = 0;
  double load_factor = 1;  // on the in-flight requests (closed loop) or the offered rate (open)
  double read_share = 0.5;
  double mean_bytes = 4096;
};

struct SimpleModelConfig {
  std::vector<KnobSpec> knobs;
  std::vector<KnobResponse> responses;  // one a knob
  uint64_t seed = 1;
  double window_seconds = 1;

  // Load. Closed loop: so many requests always in flight, throughput follows the knobs. Open loop:
  // the rate is given and only latency follows them.
  bool closed_loop = true;
  double in_flight = 32;
  double offered_ops_per_s = 4000;
  double read_share = 0.5;
  double mean_bytes = 4096;
  std::vector<LoadStep> steps;  // ascending by window

  // The store at its best setting: operations a second it can do and how far p99 is above p50.
  double capacity_ops_per_s = 8000;
  double tail_factor = 4;

  // Noise of every measured figure (log scale, AR(1) over windows) and slow drift of performance.
  double noise_cv = 0.05;
  double autocorrelation = 0.5;
  double drift_per_window = 0;
  uint64_t drift_from_window = 0;         // it drifts from here ...
  uint64_t drift_to_window = UINT64_MAX;  // ... to here, and stays there
  // After a change the effect approaches its end as 1 - exp(-t / settle_windows); 0 = at once.
  double settle_windows = 0;

  std::string device_class = "disk";
};

// Four knobs of different kinds: "alpha" (percent, best at 80), "beta" (bytes on a log scale, best
// at 16 MiB), "gamma" (a choice, best "fast") with real effects, "sham" (no effect at all); an
// operator-owned "codec"; and "poison" (default 0, every step up is harmful). Default performance
// is about 30 % below the best.
SimpleModelConfig DefaultModelConfig();

class SimpleModelEnvironment final : public Environment {
 public:
  SimpleModelEnvironment(SimpleModelConfig config, ManualClock& clock);

  const EnvironmentInfo& info() const override { return info_; }
  const KnobSpace& space() const override { return space_; }
  absl::StatusOr<Observation> Observe() override;
  double window_seconds() const override { return config_.window_seconds; }
  absl::StatusOr<SettingState> ReadSettings() override;
  absl::StatusOr<AppliedSetting> Apply(const Setting& candidate, uint64_t base_version,
                                       const LeaseTerms& terms) override;
  absl::Status Renew(const std::string& lease, uint64_t lease_ms) override;
  absl::StatusOr<uint64_t> Commit(const std::string& lease) override;
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason) override;
  absl::StatusOr<uint64_t> SetIncumbent(const Setting& setting, const std::string& actor,
                                        const std::string& reason) override;
  absl::StatusOr<std::vector<NodeEvent>> Events(uint64_t after) override;

  // The truth, without noise.
  // Log of performance against the default setting for the mix `read_share`: +0.1 is about 10 %
  // better.
  double TrueLogGain(const Setting& setting, double read_share) const;
  Setting BestSetting() const;

  // Faults on cue.
  void FailNextApply(absl::Status status) { next_apply_failure_ = std::move(status); }
  void FailNextObserve(absl::Status status) { next_observe_failure_ = std::move(status); }
  // Of the write space, from now on.
  void SetDirtyShare(double share) { dirty_share_ = share; }
  void SetDraining(bool draining) { draining_ = draining; }
  void VoidNextWindow(std::string reason) { next_void_reason_ = std::move(reason); }
  // Somebody else sets the knobs: ends any lease.
  void ChangeFromOutside(const Setting& setting);
  // The store restarts on its incumbent: new epoch, lease gone, the window under way is void.
  void Restart();

  struct Call {
    std::string verb;  // apply, renew, commit, revert, set_incumbent
    Setting setting;   // of apply and set_incumbent
    LeaseTerms terms;  // of apply
  };
  // Every change asked for, in order: what a test of the engine looks at.
  const std::vector<Call>& calls() const { return calls_; }
  uint64_t windows() const { return windows_; }

 private:
  struct Load {
    double in_flight = 0;
    double offered_ops_per_s = 0;
    double read_share = 0;
    double mean_bytes = 0;
  };
  struct Trial {
    std::string lease;
    Setting incumbent;
    uint64_t deadline_ns = 0;
    TripConditions trips;
  };
  // Log performance of reads and writes.
  struct Performance {
    double read = 0;
    double write = 0;
  };

  Load LoadAt(uint64_t window) const;
  Performance PerformanceOf(const Setting& setting) const;
  void FillMetrics(const Load& load, const Performance& performance, WindowMetrics& metrics);
  void FillDescriptor(const Load& load, WorkloadDescriptor& descriptor) const;
  void StepNoise();
  std::string TrippedBy(const WindowMetrics& metrics) const;
  void ExpireLease();
  void EndTrial(NodeEvent::Kind kind, const std::string& text);
  absl::Status CheckLease(const std::string& lease);
  void AddEvent(NodeEvent::Kind kind, std::string text, std::string lease);

  SimpleModelConfig config_;
  ManualClock& clock_;
  KnobSpace space_;
  EnvironmentInfo info_;
  Rng rng_;
  Setting current_;
  uint64_t version_ = 1;
  uint64_t leases_made_ = 0;
  std::optional<Trial> trial_;
  Performance effective_;  // lags behind the setting while it settles
  double noise_[4] = {};   // read p50, read p99, write p50, write p99
  uint64_t windows_ = 0;
  uint64_t version_at_window_start_ = 1;
  std::vector<NodeEvent> events_;
  std::vector<Call> calls_;
  absl::Status next_apply_failure_;
  absl::Status next_observe_failure_;
  std::string next_void_reason_;
  double dirty_share_ = 0.3;
  bool draining_ = false;
};

}  // namespace ebb::env
