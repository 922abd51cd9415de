#include "tests/api/rest/fake_tuner_service.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace ebb::engine {
namespace {

std::vector<KnobState> TwoKnobs() {
  KnobState watermark;
  watermark.spec.name = "destage_watermark";
  watermark.spec.kind = env::KnobKind::kPercent;
  watermark.spec.min = 10;
  watermark.spec.max = 90;
  watermark.spec.default_value = 50;
  watermark.spec.step = 5;
  watermark.spec.trades = "coalescing against burst room";
  watermark.value = 70;
  watermark.incumbent = 70;
  watermark.source = "tuner";
  watermark.since_ms = FakeTunerService::kStartMs;
  KnobState compression;
  compression.spec.name = "compression";
  compression.spec.kind = env::KnobKind::kChoice;
  compression.spec.max = 1;
  compression.spec.choices = {"off", "lz4"};
  compression.spec.default_value = 1;
  compression.spec.agent_owned = false;
  compression.value = 1;
  compression.incumbent = 1;
  compression.source = "default";
  return {watermark, compression};
}

Change OneChange(uint64_t id) {
  Change change;
  change.id = id;
  change.node = "alpha";
  change.proposed_ms = FakeTunerService::kStartMs + static_cast<int64_t>(id) * 60'000;
  change.applied_ms = change.proposed_ms + 1'000;
  change.decided_ms = change.proposed_ms + 20'000;
  change.actor = id % 2 == 1 ? "agent:hill_climb" : "operator:alice";
  change.goal = "balanced";
  change.context = id % 2 == 1 ? "c3" : "";
  change.knobs = {{id % 2 == 1 ? "destage_watermark" : "compression", id % 2 == 1 ? 50 : 0,
                   id % 2 == 1 ? 70 : 1}};
  change.reason = "write p99 rises while the \"log\" fills, more room may help";
  change.predicted = Effect{0.1, 0.02, 0.18};
  change.measured = Effect{0.08, 0.03, 0.13};
  change.smallest_detectable = 0.04;
  change.windows_used = 15;
  change.verdict = static_cast<Verdict>(id % 5);
  change.verdict_reason = "index 8 % better, interval 3 to 13 %";
  change.steps = {{change.proposed_ms, "proposed", "by hill_climb"},
                  {change.applied_ms, "applied", "lease of 30 s"}};
  return change;
}

Recommendation OneRecommendation() {
  Recommendation advice;
  advice.id = "r0123456789";
  advice.change_id = 5;
  advice.node = "alpha";
  advice.actor = "agent:hill_climb";
  advice.goal = "balanced";
  advice.knobs = {{"destage_watermark", 50, 70, 5, 90}, {"compression", 1, 0, 0, 1}};
  advice.reason = "more room may help";
  advice.expected = agents::Effect{0.1, 0.02, 0.18};
  advice.made_ms = FakeTunerService::kStartMs;
  advice.expires_ms = FakeTunerService::kStartMs + 86'400'000;
  return advice;
}

NodeStatus OneNode(const std::string& id, const std::string& control_socket) {
  NodeStatus node;
  node.id = id;
  node.control_socket = control_socket;
  node.connected = true;
  node.health = "ok";
  node.info.name = id;
  node.info.uuid = "0b7c";
  node.info.description = "one cache file, two shaped disks";
  node.info.device_class = "disk";
  node.agent = "hill_climb";
  node.state = TunerState::kScreening;
  node.why = "trying destage_watermark 70 %";
  node.baseline_progress = 1;
  node.context = {"c3", "60 % reads of 4 KiB",      true,
                  900,  FakeTunerService::kStartMs, Effect{0.08, 0.03, 0.13},
                  5};
  node.uplift.since_attach = {
      Effect{0.081, 0.052, 0.11},         "", 12, 2, 200, 400, FakeTunerService::kStartMs,
      FakeTunerService::kStartMs + 60'000};
  node.uplift.recent.missing = "not enough holdback yet: 2 of 5 blocks";
  node.uplift.recent_hours = 24;
  node.uplift.dropped_blocks = 1;
  node.uplift.last_dropped = "the load shifted";
  node.index_now = 112.5;
  node.index_minute = 110;
  node.windows = 60;
  node.void_windows = 2;
  node.setting_version = 7;
  env::Observation seen;
  seen.sequence = 60;
  seen.wall_ms = FakeTunerService::kStartMs + 60'000;
  seen.metrics.seconds = 1;
  seen.metrics.read.ops = 1'000;
  seen.metrics.read.bytes = 4'096'000;
  seen.metrics.read.p50_ns = 90'000;
  seen.metrics.read.p99_ns = 400'000;
  seen.metrics.cache_space_bytes = 64 << 20;
  seen.metrics.dirty_bytes = 16 << 20;
  seen.metrics.dirty_share = 0.25;
  node.latest = seen;
  node.totals.read.ops = 60'000;
  node.totals.read.latency.Record(90'000, 59'000);
  node.totals.read.latency.Record(400'000, 1'000);
  node.totals.changes[static_cast<size_t>(Verdict::kKeep)] = 2;
  return node;
}

}  // namespace

FakeTunerService::FakeTunerService(uint64_t change_count)
    : knobs_(TwoKnobs()), recommendations_({OneRecommendation()}) {
  for (uint64_t id = 1; id <= change_count; ++id) changes_.push_back(OneChange(id));
  NodeStatus node = OneNode("alpha", "/run/ebb/alpha.sock");
  if (!changes_.empty()) node.last_change = changes_.back();
  nodes_["alpha"] = node;
}

absl::Status FakeTunerService::Write(const std::string& node, const std::string& call,
                                     const std::string& actor) {
  if (!nodes_.contains(node)) return absl::NotFoundError("no node '" + node + "'");
  if (!refusal.ok()) return refusal;
  last_call = call;
  last_actor = actor;
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeTunerService::Attach(const std::string& control_socket,
                                                     const std::string& id, const Goal& goal,
                                                     Mode mode) {
  const std::lock_guard lock(mutex_);
  if (!refusal.ok()) return refusal;
  if (control_socket.find("nothing") != std::string::npos) {
    return absl::UnavailableError("no node answers on " + control_socket);
  }
  const std::string chosen = id.empty() ? "beta" : id;
  if (nodes_.contains(chosen)) return absl::AlreadyExistsError("'" + chosen + "' is attached");
  nodes_[chosen] = OneNode(chosen, control_socket);
  nodes_[chosen].goal = goal;
  nodes_[chosen].mode = mode;
  return chosen;
}

absl::Status FakeTunerService::Detach(const std::string& node, bool restore) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, restore ? "detach and restore" : "detach", "");
  if (status.ok()) nodes_.erase(node);
  return status;
}

std::vector<NodeStatus> FakeTunerService::Nodes() {
  const std::lock_guard lock(mutex_);
  if (throw_in_nodes) throw std::runtime_error("secret path /var/x");
  std::vector<NodeStatus> all;
  for (const auto& [id, node] : nodes_) all.push_back(node);
  return all;
}

absl::StatusOr<NodeStatus> FakeTunerService::Node(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return absl::NotFoundError("no node '" + node + "'");
  return found->second;
}

absl::Status FakeTunerService::SetGoal(const std::string& node, const Goal& goal,
                                       const std::string& actor) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, "goal", actor);
  if (status.ok()) nodes_[node].goal = goal;
  return status;
}

absl::Status FakeTunerService::SetMode(const std::string& node, Mode mode,
                                       const std::string& actor) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, "mode", actor);
  if (status.ok()) nodes_[node].mode = mode;
  return status;
}

absl::Status FakeTunerService::SetOnExit(const std::string& node, OnExit on_exit,
                                         const std::string& actor) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, "on_exit", actor);
  if (status.ok()) nodes_[node].on_exit = on_exit;
  return status;
}

absl::Status FakeTunerService::Pause(const std::string& node, const std::string& reason,
                                     std::optional<int64_t> until_ms, const std::string& actor) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, "pause", actor);
  if (!status.ok()) return status;
  nodes_[node].paused = true;
  nodes_[node].pause_reason = reason;
  nodes_[node].paused_until_ms = until_ms;
  nodes_[node].state = TunerState::kPaused;
  return status;
}

absl::Status FakeTunerService::Resume(const std::string& node, const std::string& actor) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, "resume", actor);
  if (!status.ok()) return status;
  nodes_[node].paused = false;
  nodes_[node].paused_until_ms.reset();
  nodes_[node].state = TunerState::kObserving;
  return status;
}

absl::Status FakeTunerService::Restore(const std::string& node, const std::string& actor) {
  const std::lock_guard lock(mutex_);
  return Write(node, "restore", actor);
}

absl::StatusOr<std::vector<KnobState>> FakeTunerService::Knobs(const std::string& node) {
  const std::lock_guard lock(mutex_);
  if (!nodes_.contains(node)) return absl::NotFoundError("no node '" + node + "'");
  return knobs_;
}

absl::Status FakeTunerService::Pin(const std::string& node, const std::string& knob, bool pinned,
                                   const std::string& actor) {
  const std::lock_guard lock(mutex_);
  absl::Status status = Write(node, "pin", actor);
  if (!status.ok()) return status;
  for (KnobState& state : knobs_) {
    if (state.spec.name == knob) state.pinned = pinned;
  }
  return status;
}

absl::StatusOr<std::vector<Recommendation>> FakeTunerService::Recommendations(
    const std::string& node) {
  const std::lock_guard lock(mutex_);
  if (!node.empty() && !nodes_.contains(node)) {
    return absl::NotFoundError("no node '" + node + "'");
  }
  std::vector<Recommendation> found;
  for (const Recommendation& one : recommendations_) {
    if (node.empty() || one.node == node) found.push_back(one);
  }
  return found;
}

absl::StatusOr<Recommendation> FakeTunerService::DecideRecommendation(const std::string& id,
                                                                      bool approve,
                                                                      const std::string& reason,
                                                                      const std::string& actor) {
  const std::lock_guard lock(mutex_);
  for (Recommendation& one : recommendations_) {
    if (one.id != id) continue;
    const absl::Status status = Write(one.node, approve ? "approve" : "reject", actor);
    if (!status.ok()) return status;
    one.state = approve ? RecommendationState::kApproved : RecommendationState::kRejected;
    one.decided_by = actor;
    one.decided_ms = kStartMs + 500'000;
    one.decision_reason = reason;
    return one;
  }
  return absl::NotFoundError("there is no recommendation " + id);
}

absl::StatusOr<std::vector<Change>> FakeTunerService::Changes(const std::string& node,
                                                              const ChangeQuery& query) {
  const std::lock_guard lock(mutex_);
  if (!node.empty() && !nodes_.contains(node)) {
    return absl::NotFoundError("no node '" + node + "'");
  }
  std::vector<Change> page;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    const bool has_knob =
        query.knob.empty() ||
        std::any_of(change->knobs.begin(), change->knobs.end(),
                    [&](const env::KnobChange& knob) { return knob.knob == query.knob; });
    if (has_knob && page.size() < query.limit && (node.empty() || change->node == node) &&
        (!query.from_ms || change->proposed_ms >= *query.from_ms) &&
        (!query.to_ms || change->proposed_ms < *query.to_ms) &&
        (!query.verdict || change->verdict == *query.verdict) &&
        change->actor.starts_with(query.actor) &&
        (query.goal.empty() || change->goal == query.goal) &&
        (query.context.empty() || change->context == query.context) &&
        (!query.before_id || change->id < *query.before_id)) {
      page.push_back(*change);
    }
  }
  return page;
}

absl::StatusOr<Change> FakeTunerService::GetChange(uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (id == 0 || id > changes_.size()) {
    return absl::NotFoundError("there is no change " + std::to_string(id));
  }
  return changes_[id - 1];
}

absl::StatusOr<Series> FakeTunerService::ReadSeries(const std::string& node, int64_t from_ms,
                                                    int64_t to_ms, size_t max_points) {
  const std::lock_guard lock(mutex_);
  if (!nodes_.contains(node)) return absl::NotFoundError("no node '" + node + "'");
  Series series;
  for (int64_t second = 0; second < 60; ++second) {
    SeriesPoint point;
    point.wall_ms = kStartMs + second * 1'000;
    if (point.wall_ms < from_ms || point.wall_ms >= to_ms) continue;
    point.index = second == 3 ? std::numeric_limits<double>::quiet_NaN()
                              : 100.0 + static_cast<double>(second);
    point.on_trial = second > 30;
    SeriesBucket bucket{point, point, point, 1, {}};
    bucket.counts.fill(1);
    if (second == 3) bucket.counts[0] = 0;
    series.buckets.push_back(bucket);
  }
  if (series.buckets.size() <= max_points) return series;
  // The minute as one.
  SeriesBucket minute = series.buckets.back();
  minute.min = series.buckets.front().min;
  minute.mean.index = (minute.min.index + minute.max.index) / 2;
  minute.windows = static_cast<uint32_t>(series.buckets.size());
  minute.counts.fill(minute.windows);
  minute.counts[0] -= 1;
  return Series{60'000, {minute}};
}

}  // namespace ebb::engine
