#include "env/twin/trial_ledger.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::twin {

using Kind = env::NodeEvent::Kind;

TrialLedger::TrialLedger(const env::KnobSpace& space, env::Setting incumbent, Now now)
    : space_(space), current_(std::move(incumbent)) {
  AddEvent(Kind::kStarted, "started", "", now);
}

void TrialLedger::Put(const env::Setting& setting) {
  changed_ = changed_ || !(setting == current_);
  current_ = setting;
  ++version_;
}

absl::Status TrialLedger::CheckLegal(const env::Setting& setting) const {
  const std::vector<std::string> faults = space_.Faults(setting);
  return faults.empty() ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
}

absl::Status TrialLedger::CheckLease(const std::string& lease) const {
  if (trial_ && trial_->lease == lease) return absl::OkStatus();
  return absl::NotFoundError(fmt::format("no lease {}", lease));
}

void TrialLedger::End(Kind kind, const std::string& text, Now now) {
  const Trial trial = *std::exchange(trial_, std::nullopt);
  Put(trial.incumbent);
  AddEvent(kind, text, trial.lease, now);
}

void TrialLedger::Expire(Now now) {
  if (trial_ && now.monotonic_ns >= trial_->deadline_ns) {
    End(Kind::kLeaseExpired, "the lease ran out", now);
  }
}

absl::StatusOr<env::AppliedSetting> TrialLedger::Apply(const env::Setting& candidate,
                                                       uint64_t base_version,
                                                       const env::LeaseTerms& terms, Now now) {
  Expire(now);
  EBB_RETURN_IF_ERROR(CheckLegal(candidate));
  if (base_version != version_) {
    return absl::AbortedError(
        fmt::format("the setting is at version {}, not {}", version_, base_version));
  }
  if (trial_) return absl::FailedPreconditionError("another candidate is on trial");
  trial_ = Trial{.lease = fmt::format("lease-{}", ++leases_made_),
                 .incumbent = current_,
                 .deadline_ns = now.monotonic_ns + terms.lease_ms * kNsPerMs,
                 .trips = terms.trips};
  Put(candidate);
  AddEvent(Kind::kApplied, terms.reason, trial_->lease, now);
  return env::AppliedSetting{.version = version_, .lease = trial_->lease};
}

absl::Status TrialLedger::Renew(const std::string& lease, uint64_t lease_ms, Now now) {
  Expire(now);
  EBB_RETURN_IF_ERROR(CheckLease(lease));
  trial_->deadline_ns = now.monotonic_ns + lease_ms * kNsPerMs;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TrialLedger::Commit(const std::string& lease, Now now) {
  Expire(now);
  EBB_RETURN_IF_ERROR(CheckLease(lease));
  trial_.reset();
  ++version_;  // the values in force stay: the window under way is no mixture
  AddEvent(Kind::kCommitted, "candidate became the incumbent", lease, now);
  return version_;
}

absl::StatusOr<uint64_t> TrialLedger::Revert(const std::string& lease, const std::string& reason,
                                             Now now) {
  Expire(now);
  EBB_RETURN_IF_ERROR(CheckLease(lease));
  End(Kind::kReverted, reason, now);
  return version_;
}

absl::StatusOr<uint64_t> TrialLedger::SetIncumbent(const env::Setting& setting,
                                                   const std::string& actor,
                                                   const std::string& reason, Now now) {
  Expire(now);
  EBB_RETURN_IF_ERROR(CheckLegal(setting));
  trial_.reset();
  Put(setting);
  AddEvent(Kind::kCommitted, fmt::format("{}: {}", actor, reason), "", now);
  return version_;
}

void TrialLedger::Trip(const std::string& reading, Now now) {
  if (trial_) End(Kind::kTripped, reading, now);
}

void TrialLedger::Restart(Now now) {
  if (trial_) {
    Put(trial_->incumbent);
    trial_.reset();
  }
  AddEvent(Kind::kStarted, "started", "", now);
}

env::SettingState TrialLedger::State() const {
  return {.version = version_,
          .current = current_,
          .incumbent = trial_ ? trial_->incumbent : current_,
          .lease = trial_ ? trial_->lease : ""};
}

bool TrialLedger::TakeChanged() { return std::exchange(changed_, false); }

std::vector<env::NodeEvent> TrialLedger::EventsAfter(uint64_t number) const {
  std::vector<env::NodeEvent> later;
  for (const env::NodeEvent& event : events_) {
    if (event.number > number) later.push_back(event);
  }
  return later;
}

void TrialLedger::AddEvent(Kind kind, std::string text, std::string lease, Now now) {
  events_.push_back({.number = events_.size() + 1,
                     .wall_ms = now.wall_ms,
                     .kind = kind,
                     .text = std::move(text),
                     .lease = std::move(lease),
                     .setting_version = version_});
}

}  // namespace ebb::twin
