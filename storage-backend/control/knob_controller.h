// KnobController decides which setting the store runs: candidate on a lease, or incumbent.
//
//   Set without a lease ──► incumbent (durable)
//   Set with a lease ─────► candidate, the incumbent kept aside
//        Commit ──► the candidate is the incumbent (durable)
//        Revert, lease over, a trip condition, a restart ──► back on the incumbent
//        another Set ──► the lease is over and the new setting wins; a foreign change, unless it is
//                        of the same actor
//
// The setting version counts every change of the setting in force, and goes on counting across
// restarts. The incumbent is a small checksummed file in the state folder; the events are an
// EventLog beside it. All time comes from the clock passed in, leases from its monotonic side, so
// no jump of the date shortens or lengthens them. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "storage-backend/control/event_log.h"
#include "storage-backend/control/trip_wire.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

inline constexpr uint64_t kLeaseMsMin = 100;
inline constexpr uint64_t kLeaseMsMax = 3'600'000;

struct KnobControllerOptions {
  std::string state_dir;  // exists
  KnobLimits limits;
  Setting initial;     // the incumbent of a node that has none on record
  uint64_t epoch = 0;  // of this start: makes lease names unique
};

using KnobValues = std::vector<std::pair<KnobId, int64_t>>;

struct SetRequest {
  KnobValues values;              // the other knobs keep their value
  uint64_t version = 0;           // of the setting it was based on
  uint64_t lease_ms = 0;          // 0: no lease, it becomes the incumbent
  TripConditions trips;           // with a lease only
  std::string actor = "unknown";  // "agent hill_climb", "operator alice"
  std::string reason;
};

struct SetResult {
  uint64_t version = 0;
  std::string lease;  // empty without one
};

struct RevertRecord {
  std::string lease;
  std::string cause;
  std::optional<TripReading> reading;
  int64_t wall_ms = 0;
};

struct LeaseView {
  std::string id;
  uint64_t expires_in_ms = 0;
  TripConditions trips;
};

struct KnobState {
  uint64_t version = 0;
  Setting setting;
  Setting incumbent;
  std::optional<LeaseView> lease;
  std::optional<RevertRecord> last_revert;
};

class KnobController {
 public:
  // How often Tick is to be called: what the promise to be back on the incumbent 200 ms after a
  // trip condition holds rests on.
  static constexpr uint64_t kTickIntervalMs = 100;
  // Makes the store run a setting; refuses illegal ones.
  using Apply = std::function<absl::Status(const Setting&)>;
  // A metrics snapshot for the trip conditions; its now_ns is filled in here.
  using Sample = std::function<TripSample()>;

  // Applies the incumbent on record (or options.initial) before it returns. A damaged record is put
  // aside as incumbent.json.damaged, told as an event, and options.initial taken instead.
  static absl::StatusOr<std::unique_ptr<KnobController>> Open(KnobControllerOptions options,
                                                              Apply apply, Sample sample,
                                                              Clock& clock);

  // Every fault of `values` on top of the setting in force.
  std::vector<std::string> Faults(const KnobValues& values) const;

  // All or nothing. Aborted when request.version is not the present one, InvalidArgument with every
  // fault when the setting is illegal; the setting in force is then what it was.
  absl::StatusOr<SetResult> Set(const SetRequest& request);
  // Lets `lease` run for lease_ms from now. NotFound when it is not the one that runs.
  absl::Status Renew(const std::string& lease, uint64_t lease_ms);
  // Both return the version now in force; NotFound when `lease` is not the one that runs.
  absl::StatusOr<uint64_t> Commit(const std::string& lease);
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason);

  // Checks lease and trip conditions, and reverts where due: called every kTickIntervalMs.
  void Tick();

  KnobState State() const;
  uint64_t version() const;
  const KnobLimits& limits() const { return options_.limits; }
  const EventLog& events() const { return *events_; }
  // Records an event with the present version and time; one that cannot be written stays in memory.
  void Record(NodeEvent::Kind kind, std::string text);

 private:
  struct Lease {
    std::string id;
    std::string actor;
    uint64_t expires_ns = 0;
    TripConditions trips;
    std::optional<TripWire> wire;
    bool overdue = false;  // it ended, but the store did not take the incumbent back yet
  };

  KnobController(KnobControllerOptions options, Apply apply, Sample sample, Clock& clock,
                 std::unique_ptr<EventLog> events);

  absl::Status Start();
  Setting Merged(const KnobValues& values) const;
  bool Holds(const std::string& lease) const { return lease_ && lease_->id == lease; }
  TripSample TakeSample() const;
  absl::Status Persist(const Setting& incumbent, uint64_t version) const;
  void StartLease(const SetRequest& request);
  absl::Status BackToIncumbent(NodeEvent::Kind kind, const std::string& cause,
                               const std::optional<TripReading>& reading);
  void RecordLocked(NodeEvent::Kind kind, std::string text, const std::string& lease,
                    const std::optional<TripReading>& reading = std::nullopt);

  const KnobControllerOptions options_;
  const Apply apply_;
  const Sample sample_;
  Clock& clock_;
  const std::unique_ptr<EventLog> events_;

  mutable std::mutex mutex_;
  Setting setting_;
  Setting incumbent_;
  uint64_t version_ = 0;
  uint64_t leases_given_ = 0;
  std::optional<Lease> lease_;
  std::optional<RevertRecord> last_revert_;
};

}  // namespace ebb::storage
