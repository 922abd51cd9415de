// Environment is what can be observed and tuned: a live node, its twin, later other stores.
//
// The engine owns one per node and calls it from one thread. Apply, Commit and Revert return the
// setting version that the environment read back after the change; any error from them means
// "unknown", and the engine rolls back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/knob_space.h"
#include "env/observation.h"

namespace ebb::env {

// Conditions the node itself checks every 100 ms while a candidate is on trial; unset ones are not
// checked.
struct TripConditions {
  std::optional<double> read_p99_us_max;
  std::optional<double> write_p99_us_max;
  std::optional<uint64_t> errors_max;
  std::optional<double> log_fill_per_s_max;
  std::optional<double> throughput_ops_min;
};

struct LeaseTerms {
  uint64_t lease_ms = 0;
  TripConditions trips;
  std::string actor;   // "agent hill_climb", "operator alice"
  std::string reason;  // one sentence
};

struct AppliedSetting {
  uint64_t version = 0;
  std::string lease;  // empty when none
};

// Something the environment did or saw by itself.
struct NodeEvent {
  enum class Kind : uint8_t {
    kStarted,
    kApplied,
    kCommitted,
    kReverted,
    kLeaseExpired,
    kTripped,
    kForeignChange,
    kDrain,
    kError,
    kDamage,
    kStuck,
    kRecovered,
    kDevice
  };
  uint64_t number = 0;  // ascending, no gaps
  int64_t wall_ms = 0;
  Kind kind = Kind::kStarted;
  std::string text = {};
  std::string lease = {};
  uint64_t setting_version = 0;
};

// The settings a node holds: what runs, and what it returns to.
struct SettingState {
  uint64_t version = 0;
  Setting current;
  Setting incumbent;
  std::string lease;  // empty when no candidate is on trial
};

struct EnvironmentInfo {
  std::string name;
  std::string uuid;          // of the store: settings are remembered by it
  std::string description;   // devices, and "shaped" where it applies
  std::string device_class;  // "disk", "sata-ssd", "qlc-ssd", "nvme", "unknown"
  uint64_t epoch = 0;        // changes when the environment restarts
};

class Environment {
 public:
  virtual ~Environment() = default;

  virtual const EnvironmentInfo& info() const = 0;
  virtual const KnobSpace& space() const = 0;

  // Ends the present window: waits (real or simulated time) until it is over and tells what it
  // measured.
  virtual absl::StatusOr<Observation> Observe() = 0;
  virtual double window_seconds() const = 0;

  virtual absl::StatusOr<SettingState> ReadSettings() = 0;
  // Puts `candidate` on trial under a lease, on top of setting `base_version`.
  virtual absl::StatusOr<AppliedSetting> Apply(const Setting& candidate, uint64_t base_version,
                                               const LeaseTerms& terms) = 0;
  virtual absl::Status Renew(const std::string& lease, uint64_t lease_ms) = 0;
  // The candidate becomes the incumbent.
  virtual absl::StatusOr<uint64_t> Commit(const std::string& lease) = 0;
  // Back to the incumbent now.
  virtual absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason) = 0;
  // Makes `setting` the incumbent without a trial (an operator's restore).
  virtual absl::StatusOr<uint64_t> SetIncumbent(const Setting& setting, const std::string& actor,
                                                const std::string& reason) = 0;
  // Events after number `after`, oldest first.
  virtual absl::StatusOr<std::vector<NodeEvent>> Events(uint64_t after) = 0;
};

}  // namespace ebb::env
