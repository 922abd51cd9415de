#include "env/testing/simple_model_environment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::env {
namespace {

constexpr size_t kStrata = 40;
constexpr double kStandardNormalP99 = 2.3263478740408408;

// Middles of 40 strata of equal probability of the standard normal distribution.
std::array<double, kStrata> NormalStrata() {
  std::array<double, kStrata> strata{};
  for (size_t i = 0; i < kStrata; ++i) {
    const double target = (static_cast<double>(i) + 0.5) / kStrata;
    double low = -6;
    double high = 6;
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < target ? low : high) = middle;
    }
    strata[i] = (low + high) / 2;
  }
  return strata;
}

// A log-normal latency distribution with these two quantiles.
void FillOp(double ops, double bytes_per_op, double p50_s, double p99_s, OpWindow& op) {
  op.ops = static_cast<uint64_t>(std::max(0.0, std::round(ops)));
  op.bytes = static_cast<uint64_t>(static_cast<double>(op.ops) * bytes_per_op);
  if (op.ops == 0) return;
  static const std::array<double, kStrata> strata = NormalStrata();
  op.p50_ns = p50_s * 1e9;
  op.p99_ns = p99_s * 1e9;
  const double sigma = std::log(p99_s / p50_s) / kStandardNormalP99;
  op.mean_ns = op.p50_ns * std::exp(sigma * sigma / 2);
  uint64_t recorded = 0;
  for (size_t i = 0; i < kStrata; ++i) {
    const uint64_t upto = op.ops * (i + 1) / kStrata;
    op.latency.Record(static_cast<uint64_t>(op.p50_ns * std::exp(sigma * strata[i])),
                      upto - recorded);
    recorded = upto;
  }
}

}  // namespace

SimpleModelConfig DefaultModelConfig() {
  SimpleModelConfig config;
  const auto mib = static_cast<int64_t>(kMiB);
  config.knobs = {
      {.name = "alpha",
       .kind = KnobKind::kPercent,
       .max = 100,
       .default_value = 30,
       .step = 5,
       .trades = "Best at 80 %, with less effect on writes."},
      {.name = "beta",
       .kind = KnobKind::kBytes,
       .min = mib,
       .max = 256 * mib,
       .default_value = 128 * mib,
       .step = mib,
       .log_scale = true,
       .trades = "Best at 16 MiB."},
      {.name = "gamma",
       .kind = KnobKind::kChoice,
       .max = 2,
       .default_value = 0,
       .choices = {"slow", "fast", "middle"},
       .trades = "Best at fast."},
      {.name = "sham",
       .kind = KnobKind::kInteger,
       .max = 1000,
       .default_value = 500,
       .step = 10,
       .trades = "Nothing."},
      {.name = "codec",
       .kind = KnobKind::kChoice,
       .max = 1,
       .default_value = 1,
       .choices = {"off", "on"},
       .agent_owned = false,
       .trades = "The operator's."},
      {.name = "poison",
       .kind = KnobKind::kInteger,
       .max = 10,
       .default_value = 0,
       .trades = "Every step up is harmful."},
  };
  config.responses = {
      {.best_unit = 0.8, .read_depth = 0.5, .write_depth = 0.3},
      {.best_unit = 0.5, .read_depth = 0.2, .write_depth = 0.3},
      {.best_unit = 0.5, .read_depth = 0.1, .write_depth = 0.1},
      {.best_unit = 0.5},
      {.best_unit = 0, .read_depth = 0.2, .write_depth = 0.2},
      {.best_unit = 0, .read_depth = 2.0, .write_depth = 2.0},
  };
  return config;
}

SimpleModelEnvironment::SimpleModelEnvironment(SimpleModelConfig config, ManualClock& clock)
    : config_(std::move(config)), clock_(clock), space_(config_.knobs), rng_(config_.seed) {
  EBB_CHECK(config_.responses.size() == config_.knobs.size());
  EBB_CHECK(config_.window_seconds > 0 && config_.autocorrelation < 1);
  info_.name = "model";
  info_.uuid = "00000000-0000-4000-8000-000000000000";
  info_.description = "a store made of formulas";
  info_.device_class = config_.device_class;
  info_.epoch = 1;
  current_ = space_.Default();
  effective_ = PerformanceOf(current_);
  // The first window already has the stationary spread.
  for (double& noise : noise_) noise = config_.noise_cv * rng_.Normal();
  AddEvent(NodeEvent::Kind::kStarted, "started", "");
}

SimpleModelEnvironment::Load SimpleModelEnvironment::LoadAt(uint64_t window) const {
  Load load{.in_flight = config_.in_flight,
            .offered_ops_per_s = config_.offered_ops_per_s,
            .read_share = config_.read_share,
            .mean_bytes = config_.mean_bytes};
  for (const LoadStep& step : config_.steps) {
    if (step.window > window) break;
    load = {.in_flight = config_.in_flight * step.load_factor,
            .offered_ops_per_s = config_.offered_ops_per_s * step.load_factor,
            .read_share = step.read_share,
            .mean_bytes = step.mean_bytes};
  }
  return load;
}

SimpleModelEnvironment::Performance SimpleModelEnvironment::PerformanceOf(
    const Setting& setting) const {
  Performance sum;
  for (size_t i = 0; i < space_.size(); ++i) {
    const KnobResponse& response = config_.responses[i];
    const double farthest = std::max(response.best_unit, 1 - response.best_unit);
    const double distance = (space_.ToUnit(i, setting.values[i]) - response.best_unit) / farthest;
    sum.read -= response.read_depth * distance * distance;
    sum.write -= response.write_depth * distance * distance;
  }
  return sum;
}

double SimpleModelEnvironment::TrueLogGain(const Setting& setting, double read_share) const {
  const Performance at = PerformanceOf(setting);
  const Performance base = PerformanceOf(space_.Default());
  return read_share * (at.read - base.read) + (1 - read_share) * (at.write - base.write);
}

Setting SimpleModelEnvironment::BestSetting() const {
  Setting best;
  for (size_t i = 0; i < space_.size(); ++i) {
    best.values.push_back(space_[i].agent_owned ? space_.FromUnit(i, config_.responses[i].best_unit)
                                                : space_[i].default_value);
  }
  return best;
}

void SimpleModelEnvironment::StepNoise() {
  const double rho = config_.autocorrelation;
  const double fresh = config_.noise_cv * std::sqrt(1 - rho * rho);
  for (double& noise : noise_) noise = rho * noise + fresh * rng_.Normal();
}

void SimpleModelEnvironment::FillMetrics(const Load& load, const Performance& performance,
                                         WindowMetrics& metrics) {
  const uint64_t drifted =
      std::min(windows_, config_.drift_to_window) - std::min(windows_, config_.drift_from_window);
  const double drift = config_.drift_per_window * static_cast<double>(drifted);
  const double read_speed = std::exp(performance.read + drift);
  const double write_speed = std::exp(performance.write + drift);
  // Seconds a request takes at the best setting: Little's law when the clients wait for
  // completions, a queue that fills up towards the capacity when they keep their own pace.
  double service_s = load.in_flight / config_.capacity_ops_per_s;
  if (!config_.closed_loop) {
    const double mix = load.read_share * read_speed + (1 - load.read_share) * write_speed;
    const double busy = std::min(0.97, load.offered_ops_per_s / (config_.capacity_ops_per_s * mix));
    service_s = 8 / config_.capacity_ops_per_s / (1 - busy);
  }
  const double read_s = service_s / read_speed * std::exp(noise_[0]);
  const double write_s = service_s / write_speed * std::exp(noise_[2]);
  const double mean_s = load.read_share * read_s + (1 - load.read_share) * write_s;
  const double ops_per_s = config_.closed_loop ? load.in_flight / mean_s : load.offered_ops_per_s;
  const double ops = ops_per_s * config_.window_seconds;

  metrics.seconds = config_.window_seconds;
  metrics.mean_in_flight = ops_per_s * mean_s;
  FillOp(ops * load.read_share, load.mean_bytes, read_s,
         service_s / read_speed * config_.tail_factor * std::exp(noise_[1]), metrics.read);
  FillOp(ops * (1 - load.read_share), load.mean_bytes, write_s,
         service_s / write_speed * config_.tail_factor * std::exp(noise_[3]), metrics.write);
  metrics.cache_space_bytes = kGiB;
  metrics.dirty_bytes = kGiB / 4;
  metrics.clean_bytes = kGiB / 4;
  metrics.free_bytes = kGiB / 2;
  metrics.dirty_share = dirty_share_;
  metrics.draining_by_operator = draining_;
  metrics.logical_bytes = 2 * kGiB;
  metrics.unique_bytes = kGiB;
  metrics.physical_bytes = kGiB / 2;
  metrics.read_hit_share = 0.5;
  metrics.destaged_bytes = metrics.write.bytes;
  metrics.capacity_written_bytes = metrics.write.bytes / 2;
  metrics.cpu_seconds = 0.2 * config_.window_seconds;
}

void SimpleModelEnvironment::FillDescriptor(const Load& load,
                                            WorkloadDescriptor& descriptor) const {
  // One of the two describes a load: the other follows the knobs.
  if (config_.closed_loop) {
    descriptor.mean_in_flight = load.in_flight;
  } else {
    descriptor.offered_ops_per_s = load.offered_ops_per_s;
    descriptor.offered_bytes_per_s = load.offered_ops_per_s * load.mean_bytes;
    descriptor.burstiness = 1;
  }
  descriptor.read_share = load.read_share;
  descriptor.mean_read_bytes = load.read_share > 0 ? load.mean_bytes : 0;
  descriptor.mean_write_bytes = load.read_share < 1 ? load.mean_bytes : 0;
  descriptor.sequential_share = 0.1;
  descriptor.working_set_bytes = static_cast<double>(kGiB);
}

std::string SimpleModelEnvironment::TrippedBy(const WindowMetrics& metrics) const {
  const TripConditions& trips = trial_->trips;
  const double read_p99_us = metrics.read.p99_ns / 1e3;
  const double write_p99_us = metrics.write.p99_ns / 1e3;
  const double ops_per_s =
      static_cast<double>(metrics.read.ops + metrics.write.ops) / metrics.seconds;
  if (trips.read_p99_us_max && read_p99_us > *trips.read_p99_us_max) {
    return fmt::format("read_p99_us_max: {:.0f} us is above {:.0f} us", read_p99_us,
                       *trips.read_p99_us_max);
  }
  if (trips.write_p99_us_max && write_p99_us > *trips.write_p99_us_max) {
    return fmt::format("write_p99_us_max: {:.0f} us is above {:.0f} us", write_p99_us,
                       *trips.write_p99_us_max);
  }
  if (trips.throughput_ops_min && ops_per_s < *trips.throughput_ops_min) {
    return fmt::format("throughput_ops_min: {:.0f}/s is below {:.0f}/s", ops_per_s,
                       *trips.throughput_ops_min);
  }
  return "";
}

absl::StatusOr<Observation> SimpleModelEnvironment::Observe() {
  if (!next_observe_failure_.ok()) {
    return std::exchange(next_observe_failure_, absl::OkStatus());
  }
  ExpireLease();
  const Load load = LoadAt(windows_);
  const Performance target = PerformanceOf(current_);
  const double share = config_.settle_windows > 0 ? 1 - std::exp(-1 / config_.settle_windows) : 1.0;
  effective_.read += (target.read - effective_.read) * share;
  effective_.write += (target.write - effective_.write) * share;
  StepNoise();

  Observation seen;
  FillMetrics(load, effective_, seen.metrics);
  FillDescriptor(load, seen.descriptor);
  if (trial_) {
    if (const std::string reading = TrippedBy(seen.metrics); !reading.empty()) {
      EndTrial(NodeEvent::Kind::kTripped, reading);
    }
  }
  clock_.AdvanceNs(static_cast<uint64_t>(config_.window_seconds * 1e9));
  ExpireLease();

  seen.sequence = ++windows_;
  seen.wall_ms = clock_.WallMs();
  seen.monotonic_ns = clock_.MonotonicNs();
  seen.setting = current_;
  seen.setting_version = version_;
  seen.setting_changed = version_ != version_at_window_start_;
  seen.void_reason = std::exchange(next_void_reason_, "");
  seen.valid = seen.void_reason.empty();
  version_at_window_start_ = version_;
  return seen;
}

absl::StatusOr<SettingState> SimpleModelEnvironment::ReadSettings() {
  ExpireLease();
  return SettingState{.version = version_,
                      .current = current_,
                      .incumbent = trial_ ? trial_->incumbent : current_,
                      .lease = trial_ ? trial_->lease : ""};
}

absl::StatusOr<AppliedSetting> SimpleModelEnvironment::Apply(const Setting& candidate,
                                                             uint64_t base_version,
                                                             const LeaseTerms& terms) {
  ExpireLease();
  calls_.push_back({"apply", candidate, terms});
  if (!next_apply_failure_.ok()) return std::exchange(next_apply_failure_, absl::OkStatus());
  if (const std::vector<std::string> faults = space_.Faults(candidate); !faults.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(faults, "; ")));
  }
  if (base_version != version_) {
    return absl::AbortedError(
        fmt::format("the setting is at version {}, not {}", version_, base_version));
  }
  if (trial_) return absl::FailedPreconditionError("another candidate is on trial");
  trial_ = Trial{.lease = fmt::format("lease-{}", ++leases_made_),
                 .incumbent = current_,
                 .deadline_ns = clock_.MonotonicNs() + terms.lease_ms * kNsPerMs,
                 .trips = terms.trips};
  current_ = candidate;
  ++version_;
  AddEvent(NodeEvent::Kind::kApplied, terms.reason, trial_->lease);
  return AppliedSetting{.version = version_, .lease = trial_->lease};
}

absl::Status SimpleModelEnvironment::CheckLease(const std::string& lease) {
  ExpireLease();
  if (trial_ && trial_->lease == lease) return absl::OkStatus();
  return absl::NotFoundError(fmt::format("no lease {}", lease));
}

absl::Status SimpleModelEnvironment::Renew(const std::string& lease, uint64_t lease_ms) {
  calls_.push_back({"renew", {}, {}});
  EBB_RETURN_IF_ERROR(CheckLease(lease));
  trial_->deadline_ns = clock_.MonotonicNs() + lease_ms * kNsPerMs;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SimpleModelEnvironment::Commit(const std::string& lease) {
  calls_.push_back({"commit", {}, {}});
  EBB_RETURN_IF_ERROR(CheckLease(lease));
  // The values in force stay: the window under way is no mixture.
  if (version_at_window_start_ == version_) ++version_at_window_start_;
  ++version_;
  AddEvent(NodeEvent::Kind::kCommitted, "candidate became the incumbent", lease);
  trial_.reset();
  return version_;
}

absl::StatusOr<uint64_t> SimpleModelEnvironment::Revert(const std::string& lease,
                                                        const std::string& reason) {
  calls_.push_back({"revert", {}, {}});
  EBB_RETURN_IF_ERROR(CheckLease(lease));
  EndTrial(NodeEvent::Kind::kReverted, reason);
  return version_;
}

absl::StatusOr<uint64_t> SimpleModelEnvironment::SetIncumbent(const Setting& setting,
                                                              const std::string& actor,
                                                              const std::string& reason) {
  calls_.push_back({"set_incumbent", setting, {}});
  ExpireLease();
  if (const std::vector<std::string> faults = space_.Faults(setting); !faults.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(faults, "; ")));
  }
  trial_.reset();
  current_ = setting;
  ++version_;
  AddEvent(NodeEvent::Kind::kCommitted, fmt::format("{}: {}", actor, reason), "");
  return version_;
}

absl::StatusOr<std::vector<NodeEvent>> SimpleModelEnvironment::Events(uint64_t after) {
  ExpireLease();
  std::vector<NodeEvent> later;
  for (const NodeEvent& event : events_) {
    if (event.number > after) later.push_back(event);
  }
  return later;
}

void SimpleModelEnvironment::ChangeFromOutside(const Setting& setting) {
  EBB_CHECK(space_.Faults(setting).empty());
  const std::string lease = trial_ ? trial_->lease : "";
  trial_.reset();
  current_ = setting;
  ++version_;
  AddEvent(NodeEvent::Kind::kForeignChange, "somebody set the knobs", lease);
}

void SimpleModelEnvironment::Restart() {
  if (trial_) {
    current_ = trial_->incumbent;
    trial_.reset();
    ++version_;
  }
  ++info_.epoch;
  effective_ = PerformanceOf(current_);
  next_void_reason_ = "the node restarted within this window";
  AddEvent(NodeEvent::Kind::kStarted, "started", "");
}

void SimpleModelEnvironment::ExpireLease() {
  if (trial_ && clock_.MonotonicNs() >= trial_->deadline_ns) {
    EndTrial(NodeEvent::Kind::kLeaseExpired, "the lease ran out");
  }
}

void SimpleModelEnvironment::EndTrial(NodeEvent::Kind kind, const std::string& text) {
  current_ = trial_->incumbent;
  ++version_;
  AddEvent(kind, text, trial_->lease);
  trial_.reset();
}

void SimpleModelEnvironment::AddEvent(NodeEvent::Kind kind, std::string text, std::string lease) {
  events_.push_back({.number = events_.size() + 1,
                     .wall_ms = clock_.WallMs(),
                     .kind = kind,
                     .text = std::move(text),
                     .lease = std::move(lease),
                     .setting_version = version_});
}

}  // namespace ebb::env
