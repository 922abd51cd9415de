// TrialLedger keeps what a node keeps of its settings: the incumbent, a candidate under a lease,
// the version that every change raises, and the events of all that.
//
// Time is given; no clock, no node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/environment.h"

namespace ebb::twin {

class TrialLedger {
 public:
  // What the clock says, for the events.
  struct Now {
    uint64_t monotonic_ns = 0;
    int64_t wall_ms = 0;
  };

  TrialLedger(const env::KnobSpace& space, env::Setting incumbent, Now now);

  // Each may end a lease that ran out first. The setting in force is current() afterwards.
  void Expire(Now now);
  absl::StatusOr<env::AppliedSetting> Apply(const env::Setting& candidate, uint64_t base_version,
                                            const env::LeaseTerms& terms, Now now);
  absl::Status Renew(const std::string& lease, uint64_t lease_ms, Now now);
  absl::StatusOr<uint64_t> Commit(const std::string& lease, Now now);
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason, Now now);
  absl::StatusOr<uint64_t> SetIncumbent(const env::Setting& setting, const std::string& actor,
                                        const std::string& reason, Now now);
  // A trip condition held: back to the incumbent.
  void Trip(const std::string& reading, Now now);
  // The node started again, on its incumbent.
  void Restart(Now now);

  env::SettingState State() const;
  const env::Setting& current() const { return current_; }
  uint64_t version() const { return version_; }
  // The conditions of the candidate on trial; nullptr without one.
  const env::TripConditions* trips() const { return trial_ ? &trial_->trips : nullptr; }
  std::vector<env::NodeEvent> EventsAfter(uint64_t number) const;
  // Whether values changed since the last call: the window between is a mixture.
  bool TakeChanged();

 private:
  struct Trial {
    std::string lease;
    env::Setting incumbent;
    uint64_t deadline_ns = 0;
    env::TripConditions trips;
  };

  absl::Status CheckLegal(const env::Setting& setting) const;
  absl::Status CheckLease(const std::string& lease) const;
  void Put(const env::Setting& setting);
  void End(env::NodeEvent::Kind kind, const std::string& text, Now now);
  void AddEvent(env::NodeEvent::Kind kind, std::string text, std::string lease, Now now);

  const env::KnobSpace& space_;
  env::Setting current_;
  uint64_t version_ = 1;
  uint64_t leases_made_ = 0;
  bool changed_ = false;
  std::optional<Trial> trial_;
  std::vector<env::NodeEvent> events_;
};

}  // namespace ebb::twin
