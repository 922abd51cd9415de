#include "env/node/node_environment.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/status.h"
#include "env/node/node_codec.h"
#include "fmt/format.h"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::env {
namespace {

constexpr uint64_t kEventsPage = 1'000;
constexpr int kSetAttempts = 3;

}  // namespace

NodeEnvironment::NodeEnvironment(const NodeEnvironmentConfig& config, Clock& clock)
    : config_(config),
      clock_(clock),
      client_(
          std::make_unique<storage::JsonRpcClient>(config.socket_path, config.call_timeout_ns)) {}

NodeEnvironment::~NodeEnvironment() = default;

absl::StatusOr<std::unique_ptr<NodeEnvironment>> NodeEnvironment::Connect(
    const NodeEnvironmentConfig& config, Clock& clock) {
  if (config.window_ns < 10 * kNsPerMs) {
    return absl::InvalidArgumentError("a window is at least 10 ms long");
  }
  auto node = std::unique_ptr<NodeEnvironment>(new NodeEnvironment(config, clock));
  EBB_RETURN_IF_ERROR(node->Identify());
  EBB_ASSIGN_OR_RETURN(Mark mark, node->TakeMark());
  node->info_.epoch = mark.snapshot.epoch;
  node->start_ = std::move(mark);
  return node;
}

absl::StatusOr<std::string> NodeEnvironment::Call(std::string_view method,
                                                  const std::string& params) {
  return client_->Call(method, params);
}

// Who the node is, what may be tuned on it and what runs now.
absl::Status NodeEnvironment::Identify() {
  EBB_ASSIGN_OR_RETURN(const std::string info_json, Call("node.info"));
  EBB_ASSIGN_OR_RETURN(NodeInfo node, DecodeNodeInfo(info_json));
  EBB_ASSIGN_OR_RETURN(const std::string knobs_json, Call("knobs.describe"));
  EBB_ASSIGN_OR_RETURN(KnobSpace space, DecodeKnobSpace(knobs_json));
  if (space.size() == 0) return absl::InvalidArgumentError("this node has no knobs");
  node.info.epoch = info_.epoch;
  info_ = std::move(node.info);
  space_ = std::move(space);
  descriptor_.emplace(node.volume_bytes);
  stream_.emplace(*client_);
  EBB_ASSIGN_OR_RETURN(setting_, ReadSettings());
  return ReadStream();
}

absl::StatusOr<NodeEnvironment::Mark> NodeEnvironment::TakeMark() {
  const uint64_t asked_ns = clock_.MonotonicNs();
  EBB_ASSIGN_OR_RETURN(const std::string json, Call("metrics.get"));
  const uint64_t answered_ns = clock_.MonotonicNs();
  Mark mark;
  EBB_ASSIGN_OR_RETURN(mark.snapshot, DecodeSnapshot(json));
  mark.taken_ns = asked_ns + (answered_ns - asked_ns) / 2;
  return mark;
}

absl::Status NodeEnvironment::ReadStream() {
  return stream_->ReadToEnd([this](const StreamSlice& slice) {
    descriptor_->Add(slice.entries, slice.sample_rate);
    return absl::OkStatus();
  });
}

// Sleeps to the end of the window. A caller that comes back late gets a fresh window rather than a
// longer one, whose spread would be another.
absl::Status NodeEnvironment::WaitForWindowEnd() {
  const uint64_t now_ns = clock_.MonotonicNs();
  if (!start_) {
    clock_.SleepUntilNs(now_ns + config_.window_ns);
    return absl::OkStatus();
  }
  if (now_ns > start_->taken_ns + config_.window_ns + config_.window_ns / 2) {
    const uint64_t epoch = start_->snapshot.epoch;
    start_.reset();
    EBB_ASSIGN_OR_RETURN(Mark mark, TakeMark());
    if (mark.snapshot.epoch == epoch) {
      EBB_RETURN_IF_ERROR(ReadStream());
      start_ = std::move(mark);
    }
  }
  clock_.SleepUntilNs((start_ ? start_->taken_ns : now_ns) + config_.window_ns);
  return absl::OkStatus();
}

// Reads the setting anew when the node says that it changed.
absl::Status NodeEnvironment::FollowSetting(uint64_t version) {
  if (version == setting_.version) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(setting_, ReadSettings());
  return absl::OkStatus();
}

WorkloadDescriptor NodeEnvironment::Describe(const WindowMetrics& metrics) {
  return descriptor_->Finish({.seconds = metrics.seconds,
                              .reads = metrics.read.ops,
                              .writes = metrics.write.ops,
                              .read_bytes = metrics.read.bytes,
                              .write_bytes = metrics.write.bytes,
                              .mean_in_flight = metrics.mean_in_flight});
}

absl::StatusOr<Observation> NodeEnvironment::Observe() {
  EBB_RETURN_IF_ERROR(WaitForWindowEnd());
  // Until everything has been read there is no mark to measure the next window from.
  const std::optional<Mark> start = std::exchange(start_, std::nullopt);
  EBB_ASSIGN_OR_RETURN(Mark end, TakeMark());
  const bool restarted = end.snapshot.epoch != info_.epoch;
  if (restarted) {
    EBB_RETURN_IF_ERROR(Identify());
    info_.epoch = end.snapshot.epoch;
  } else {
    EBB_RETURN_IF_ERROR(FollowSetting(end.snapshot.setting_version));
    EBB_RETURN_IF_ERROR(ReadStream());
  }

  Observation seen;
  if (restarted) {
    seen.void_reason = "the node restarted within this window";
  } else if (!start) {
    seen.void_reason = "the node was away when this window began";
  } else {
    const WindowLimits limits = {
        .expected_seconds = static_cast<double>(end.taken_ns - start->taken_ns) / 1e9,
        .processors = static_cast<double>(std::thread::hardware_concurrency())};
    seen.metrics = MeasureWindow(start->snapshot, end.snapshot, limits, seen.void_reason);
  }
  seen.valid = seen.void_reason.empty();
  seen.descriptor = Describe(seen.metrics);
  seen.sequence = ++sequence_;
  seen.wall_ms = end.snapshot.wall_ms;
  seen.monotonic_ns = end.taken_ns;
  seen.setting = setting_.current;
  seen.setting_version = setting_.version;
  seen.setting_changed = start && setting_.version != start->snapshot.setting_version;
  // A change between the two calls belongs to the next window as well.
  end.snapshot.setting_version = std::min(end.snapshot.setting_version, setting_.version);
  start_ = std::move(end);
  return seen;
}

absl::StatusOr<SettingState> NodeEnvironment::ReadSettings() {
  EBB_ASSIGN_OR_RETURN(const std::string json, Call("knobs.get"));
  return DecodeSettings(space_, json);
}

absl::Status NodeEnvironment::CheckLegal(const Setting& setting) const {
  const std::vector<std::string> faults = space_.Faults(setting);
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(faults, "; ")));
}

absl::StatusOr<AppliedSetting> NodeEnvironment::Apply(const Setting& candidate,
                                                      uint64_t base_version,
                                                      const LeaseTerms& terms) {
  EBB_RETURN_IF_ERROR(CheckLegal(candidate));
  if (terms.lease_ms == 0) return absl::InvalidArgumentError("a candidate needs a lease");
  EBB_ASSIGN_OR_RETURN(const std::string json,
                       Call("knobs.set", EncodeSet(space_, candidate, base_version, terms)));
  EBB_ASSIGN_OR_RETURN(AppliedSetting applied, DecodeApplied(json));
  if (applied.lease.empty()) {
    return absl::InternalError("the node took a candidate but gave no lease");
  }
  // What the node says it runs is what counts.
  EBB_ASSIGN_OR_RETURN(const SettingState state, ReadSettings());
  if (state.lease == applied.lease && state.current != candidate) {
    return absl::InternalError("the node runs another setting than the one it accepted");
  }
  candidate_lease_ = applied.lease;
  candidate_version_ = applied.version;
  return applied;
}

absl::Status NodeEnvironment::Renew(const std::string& lease, uint64_t lease_ms) {
  return Call("knobs.renew", EncodeRenew(lease, lease_ms)).status();
}

absl::StatusOr<uint64_t> NodeEnvironment::Commit(const std::string& lease) {
  EBB_ASSIGN_OR_RETURN(const std::string json, Call("knobs.commit", EncodeLease(lease)));
  EBB_ASSIGN_OR_RETURN(const uint64_t version, DecodeVersion(json));
  // The values in force stay, whatever number they have now: the window under way is no mixture.
  if (start_ && lease == candidate_lease_ &&
      start_->snapshot.setting_version == candidate_version_) {
    start_->snapshot.setting_version = version;
  }
  return version;
}

absl::StatusOr<uint64_t> NodeEnvironment::Revert(const std::string& lease,
                                                 const std::string& reason) {
  EBB_ASSIGN_OR_RETURN(const std::string json, Call("knobs.revert", EncodeRevert(lease, reason)));
  return DecodeVersion(json);
}

absl::StatusOr<uint64_t> NodeEnvironment::SetIncumbent(const Setting& setting,
                                                       const std::string& actor,
                                                       const std::string& reason) {
  EBB_RETURN_IF_ERROR(CheckLegal(setting));
  LeaseTerms terms;
  terms.actor = actor;
  terms.reason = reason;
  absl::Status last;
  // It is meant to win over whatever runs: a version that moved on is no reason to give up.
  for (int attempt = 0; attempt < kSetAttempts; ++attempt) {
    EBB_ASSIGN_OR_RETURN(const SettingState state, ReadSettings());
    absl::StatusOr<std::string> json =
        Call("knobs.set", EncodeSet(space_, setting, state.version, terms));
    if (json.ok()) {
      EBB_ASSIGN_OR_RETURN(const AppliedSetting applied, DecodeApplied(*json));
      return applied.version;
    }
    last = json.status();
    if (last.code() != absl::StatusCode::kAborted) return last;
  }
  return last;
}

absl::StatusOr<std::vector<NodeEvent>> NodeEnvironment::Events(uint64_t after) {
  std::vector<NodeEvent> events;
  while (true) {
    const uint64_t from = events.empty() ? after : events.back().number;
    EBB_ASSIGN_OR_RETURN(const std::string json,
                         Call("events.get", EncodeAfter(from, kEventsPage)));
    EBB_ASSIGN_OR_RETURN(std::vector<NodeEvent> page, DecodeEvents(json));
    if (!page.empty() && page.front().number <= from) {
      return absl::InternalError(
          fmt::format("the node told event {} when asked for later ones", page.front().number));
    }
    const bool last = page.size() < kEventsPage;
    std::move(page.begin(), page.end(), std::back_inserter(events));
    if (last) return events;
  }
}

}  // namespace ebb::env
