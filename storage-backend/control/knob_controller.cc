#include "storage-backend/control/knob_controller.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/control/incumbent_file.h"

namespace ebb::storage {
namespace {

std::string IncumbentPath(const std::string& state_dir) { return state_dir + "/incumbent.json"; }

// "destage_watermark 50 % -> 60 %, dedup on -> off".
std::string Difference(const Setting& from, const Setting& to) {
  std::string text;
  for (const KnobSpec& spec : KnobTable()) {
    if (from[spec.id] == to[spec.id]) continue;
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", spec.name,
                        FormatKnobValue(spec, from[spec.id]), FormatKnobValue(spec, to[spec.id]));
  }
  return text.empty() ? "nothing differs" : text;
}

std::string WithReason(std::string text, const std::string& reason) {
  return reason.empty() ? text : fmt::format("{} ({})", text, reason);
}

bool EndsLease(NodeEvent::Kind kind) {
  return kind == NodeEvent::Kind::kCommitted || kind == NodeEvent::Kind::kReverted ||
         kind == NodeEvent::Kind::kLeaseExpired || kind == NodeEvent::Kind::kTripped ||
         kind == NodeEvent::Kind::kForeignChange;
}

bool IsRevert(NodeEvent::Kind kind) {
  return EndsLease(kind) && kind != NodeEvent::Kind::kCommitted &&
         kind != NodeEvent::Kind::kForeignChange;
}

absl::Status NoSuchLease(const std::string& lease) {
  return absl::NotFoundError(
      fmt::format("lease {} is over: events.get tells why, knobs.get what runs now", lease));
}

}  // namespace

KnobController::KnobController(KnobControllerOptions options, Apply apply, Sample sample,
                               Clock& clock, std::unique_ptr<EventLog> events)
    : options_(std::move(options)),
      apply_(std::move(apply)),
      sample_(std::move(sample)),
      clock_(clock),
      events_(std::move(events)) {}

absl::StatusOr<std::unique_ptr<KnobController>> KnobController::Open(KnobControllerOptions options,
                                                                     Apply apply, Sample sample,
                                                                     Clock& clock) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<EventLog> events,
                       EventLog::Open(options.state_dir + "/events.jsonl"));
  auto controller = std::unique_ptr<KnobController>(new KnobController(
      std::move(options), std::move(apply), std::move(sample), clock, std::move(events)));
  EBB_RETURN_IF_ERROR(controller->Start());
  return controller;
}

absl::Status KnobController::Start() {
  const std::string path = IncumbentPath(options_.state_dir);
  std::string trouble;
  incumbent_ = options_.initial;
  absl::StatusOr<IncumbentRecord> record = ReadIncumbent(path);
  if (record.ok()) {
    const std::vector<std::string> faults = SettingFaults(record->setting, options_.limits);
    if (faults.empty()) {
      incumbent_ = record->setting;
    } else {
      trouble = fmt::format("the incumbent on record is not legal here ({})",
                            absl::StrJoin(faults, "; "));
    }
    version_ = record->version;
  } else if (absl::IsDataLoss(record.status())) {
    trouble = std::string(record.status().message());
  } else if (!absl::IsNotFound(record.status())) {
    return record.status();
  }
  if (!trouble.empty()) std::rename(path.c_str(), (path + ".damaged").c_str());

  // What the last run left open. Its candidate's version must never be given again.
  std::string open_lease;
  for (const NodeEvent& event : events_->After(0, EventLog::kEventsKept)) {
    version_ = std::max(version_, event.setting_version);
    if (event.kind == NodeEvent::Kind::kApplied) open_lease = event.lease;
    if (EndsLease(event.kind) && event.lease == open_lease) open_lease.clear();
    if (IsRevert(event.kind)) {
      last_revert_ = RevertRecord{event.lease, event.text, event.reading, event.wall_ms};
    }
  }

  EBB_RETURN_IF_ERROR(Annotate(apply_(incumbent_), "the initial setting"));
  setting_ = incumbent_;
  ++version_;
  EBB_RETURN_IF_ERROR(Persist(incumbent_, version_));
  if (events_->damaged_lines() > 0) {
    RecordLocked(
        NodeEvent::Kind::kError,
        fmt::format("{} damaged lines of the event log were left out", events_->damaged_lines()),
        "");
  }
  if (!trouble.empty()) {
    RecordLocked(NodeEvent::Kind::kError, trouble + ": started on the configured setting", "");
  }
  if (!open_lease.empty()) {
    const std::string cause = "the node restarted while this candidate was on trial";
    RecordLocked(NodeEvent::Kind::kReverted, cause, open_lease);
    last_revert_ = RevertRecord{open_lease, cause, std::nullopt, clock_.WallMs()};
  }
  RecordLocked(NodeEvent::Kind::kStarted, "the node started on its incumbent", "");
  return absl::OkStatus();
}

Setting KnobController::Merged(const KnobValues& values) const {
  Setting merged = setting_;
  for (const auto& [id, value] : values) merged.Set(id, value);
  return merged;
}

TripSample KnobController::TakeSample() const {
  TripSample sample = sample_();
  sample.now_ns = clock_.MonotonicNs();
  return sample;
}

absl::Status KnobController::Persist(const Setting& incumbent, uint64_t version) const {
  return WriteIncumbent(IncumbentPath(options_.state_dir), {version, incumbent});
}

std::vector<std::string> KnobController::Faults(const KnobValues& values) const {
  const std::lock_guard lock(mutex_);
  return SettingFaults(Merged(values), options_.limits);
}

absl::StatusOr<SetResult> KnobController::Set(const SetRequest& request) {
  Tick();
  const std::lock_guard lock(mutex_);
  if (request.version != version_) {
    return absl::AbortedError(
        fmt::format("the setting is at version {} by now, not {}: read it again (knobs.get)",
                    version_, request.version));
  }
  const Setting next = Merged(request.values);
  if (const auto faults = SettingFaults(next, options_.limits); !faults.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  }
  const Setting previous = setting_;
  EBB_RETURN_IF_ERROR(apply_(next));
  if (request.lease_ms == 0) {
    if (absl::Status status = Persist(next, version_ + 1); !status.ok()) {
      // Not durable, so not the incumbent: the store goes on with what it ran.
      const absl::Status undone = apply_(previous);
      return Annotate(undone.ok() ? status : undone, "the setting could not be kept");
    }
    incumbent_ = next;
  }
  setting_ = next;
  ++version_;
  if (lease_ && request.actor != lease_->actor) {
    RecordLocked(NodeEvent::Kind::kForeignChange,
                 fmt::format("the candidate of {} was replaced by a setting of {}", lease_->actor,
                             request.actor),
                 lease_->id);
  }
  lease_.reset();
  if (request.lease_ms > 0) StartLease(request);
  RecordLocked(NodeEvent::Kind::kApplied,
               WithReason(fmt::format("{} by {}: {}", lease_ ? "candidate" : "incumbent",
                                      request.actor, Difference(previous, next)),
                          request.reason),
               lease_ ? lease_->id : "");
  return SetResult{version_, lease_ ? lease_->id : ""};
}

void KnobController::StartLease(const SetRequest& request) {
  Lease lease;
  lease.id = fmt::format("{:x}-{}", options_.epoch, ++leases_given_);
  lease.actor = request.actor;
  lease.trips = request.trips;
  if (!request.trips.empty()) lease.wire.emplace(request.trips, TakeSample());
  lease.expires_ns = clock_.MonotonicNs() + request.lease_ms * kNsPerMs;
  lease_ = std::move(lease);
}

absl::Status KnobController::Renew(const std::string& lease, uint64_t lease_ms) {
  Tick();
  const std::lock_guard lock(mutex_);
  if (!Holds(lease) || lease_->overdue) return NoSuchLease(lease);
  lease_->expires_ns = clock_.MonotonicNs() + lease_ms * kNsPerMs;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> KnobController::Commit(const std::string& lease) {
  Tick();
  const std::lock_guard lock(mutex_);
  if (!Holds(lease) || lease_->overdue) return NoSuchLease(lease);
  EBB_RETURN_IF_ERROR(Annotate(Persist(setting_, version_),
                               "the candidate could not be kept and is still on trial"));
  RecordLocked(NodeEvent::Kind::kCommitted,
               fmt::format("the candidate of {} is the incumbent now: {}", lease_->actor,
                           Difference(incumbent_, setting_)),
               lease);
  incumbent_ = setting_;
  lease_.reset();
  return version_;
}

absl::StatusOr<uint64_t> KnobController::Revert(const std::string& lease,
                                                const std::string& reason) {
  Tick();
  const std::lock_guard lock(mutex_);
  if (!Holds(lease)) return NoSuchLease(lease);
  EBB_RETURN_IF_ERROR(BackToIncumbent(NodeEvent::Kind::kReverted,
                                      reason.empty() ? "asked to revert" : reason, std::nullopt));
  return version_;
}

void KnobController::Tick() {
  const std::lock_guard lock(mutex_);
  if (!lease_) return;
  if (lease_->overdue || clock_.MonotonicNs() >= lease_->expires_ns) {
    (void)BackToIncumbent(NodeEvent::Kind::kLeaseExpired, "the lease ran out", std::nullopt);
    return;
  }
  if (!lease_->wire) return;
  if (const std::optional<TripReading> reading = lease_->wire->Observe(TakeSample())) {
    (void)BackToIncumbent(NodeEvent::Kind::kTripped, reading->Text(), reading);
  }
}

// The store takes a setting that it once took, so a refusal here is a fault of the store. The lease
// then stays as overdue, and the next tick tries again.
absl::Status KnobController::BackToIncumbent(NodeEvent::Kind kind, const std::string& cause,
                                             const std::optional<TripReading>& reading) {
  if (absl::Status status = apply_(incumbent_); !status.ok()) {
    if (!lease_->overdue) {
      RecordLocked(NodeEvent::Kind::kError,
                   fmt::format("the store refuses its incumbent, trying on: {}",
                               std::string(status.message())),
                   lease_->id);
    }
    lease_->overdue = true;
    return status;
  }
  const std::string lease_id = lease_->id;
  const std::string text =
      fmt::format("{}; back on the incumbent: {}", cause, Difference(setting_, incumbent_));
  setting_ = incumbent_;
  ++version_;
  lease_.reset();
  last_revert_ = RevertRecord{lease_id, cause, reading, clock_.WallMs()};
  RecordLocked(kind, text, lease_id, reading);
  return absl::OkStatus();
}

KnobState KnobController::State() const {
  const std::lock_guard lock(mutex_);
  KnobState state{version_, setting_, incumbent_, std::nullopt, last_revert_};
  if (lease_) {
    const uint64_t now_ns = clock_.MonotonicNs();
    const uint64_t left_ns = lease_->expires_ns > now_ns ? lease_->expires_ns - now_ns : 0;
    state.lease = LeaseView{lease_->id, left_ns / kNsPerMs, lease_->trips};
  }
  return state;
}

uint64_t KnobController::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

void KnobController::Record(NodeEvent::Kind kind, std::string text) {
  const std::lock_guard lock(mutex_);
  RecordLocked(kind, std::move(text), "");
}

void KnobController::RecordLocked(NodeEvent::Kind kind, std::string text, const std::string& lease,
                                  const std::optional<TripReading>& reading) {
  NodeEvent event;
  event.wall_ms = clock_.WallMs();
  event.kind = kind;
  event.text = std::move(text);
  event.setting_version = version_;
  event.lease = lease;
  event.reading = reading;
  // Durable where a version is given to a client that may come back with it after a power cut. A
  // revert must not wait for a busy disk, and kill -9 loses neither.
  const absl::Status status = events_->Append(std::move(event), kind == NodeEvent::Kind::kApplied);
  if (!status.ok()) fmt::print(stderr, "ebb: {}\n", std::string(status.message()));
}

}  // namespace ebb::storage
