// TwinEnvironment: the simulator as an Environment like any other.
//
// Observe simulates one window and moves the given clock by it. Leases, trip conditions (the node's
// own TripWire, asked every 100 ms of the node's time) and events are those of a node. The log is
// at its steady fill before the first window. Same config, load and calls: same windows. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "env/environment.h"
#include "env/node/stream_descriptor.h"
#include "env/twin/measurement_noise.h"
#include "env/twin/simulator.h"
#include "env/twin/trial_ledger.h"
#include "storage-backend/control/trip_wire.h"

namespace ebb::twin {

// The node's knob table as a KnobSpace, and settings to and fro.
env::KnobSpace TwinKnobSpace(uint64_t host_memory_bytes);
storage::Setting ToStorageSetting(const env::Setting& setting);
env::Setting ToEnvSetting(const storage::Setting& setting);

struct TwinConfig {
  SimulatorConfig simulator;
  double window_seconds = 1;
  // Passes of the load before the first window, at most: see Simulator::WarmUp.
  int warm_up_passes = 2;
  double settle_seconds = 2;  // simulated and thrown away after that
  NoiseSpec noise;
  std::string name = "twin";
};

class TwinEnvironment final : public env::Environment {
 public:
  static absl::StatusOr<std::unique_ptr<TwinEnvironment>> Make(
      const TwinConfig& config, std::shared_ptr<const RequestStream> load, ManualClock& clock);

  const env::EnvironmentInfo& info() const override { return info_; }
  const env::KnobSpace& space() const override { return space_; }
  absl::StatusOr<env::Observation> Observe() override;
  double window_seconds() const override { return config_.window_seconds; }
  absl::StatusOr<env::SettingState> ReadSettings() override;
  absl::StatusOr<env::AppliedSetting> Apply(const env::Setting& candidate, uint64_t base_version,
                                            const env::LeaseTerms& terms) override;
  absl::Status Renew(const std::string& lease, uint64_t lease_ms) override;
  absl::StatusOr<uint64_t> Commit(const std::string& lease) override;
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason) override;
  absl::StatusOr<uint64_t> SetIncumbent(const env::Setting& setting, const std::string& actor,
                                        const std::string& reason) override;
  absl::StatusOr<std::vector<env::NodeEvent>> Events(uint64_t after) override;

  // The node starts again on its incumbent; the window under way is void.
  void Restart();
  // What the last window showed besides its observation.
  const WindowResult& last_window() const { return last_window_; }

 private:
  TwinEnvironment(const TwinConfig& config, std::shared_ptr<const RequestStream> load,
                  std::unique_ptr<Simulator> simulator, ManualClock& clock);

  TrialLedger::Now Now() const;
  // Ends a lease that ran out; then what the ledger says is what the simulator runs.
  void Expire();
  void FollowLedger();
  storage::TripSample Sample() const;
  void WatchTrip();
  void CountForTrips(const WindowResult& slice);
  void AddContent(const Request& request, env::StreamEntry& entry);
  env::WorkloadDescriptor Describe(const WindowResult& window);

  const TwinConfig config_;
  const std::shared_ptr<const RequestStream> load_;
  std::unique_ptr<Simulator> simulator_;
  ManualClock& clock_;
  env::EnvironmentInfo info_;
  env::KnobSpace space_;
  TrialLedger ledger_;
  env::Setting running_;
  MeasurementNoise noise_;
  env::StreamDescriptor descriptor_;
  std::optional<storage::TripWire> trip_wire_;
  storage::TripSample totals_;  // cumulative
  uint64_t sequence_ = 0;
  uint64_t unique_contents_ = 0;
  std::string void_reason_;
  WindowResult last_window_;
};

}  // namespace ebb::twin
