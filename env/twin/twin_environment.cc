#include "env/twin/twin_environment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

constexpr double kSliceSeconds = 0.1;  // as often as the node's watchdog looks

env::KnobKind KindOf(storage::KnobKind kind) {
  switch (kind) {
    case storage::KnobKind::kBytes:
      return env::KnobKind::kBytes;
    case storage::KnobKind::kPercent:
      return env::KnobKind::kPercent;
    case storage::KnobKind::kMicroseconds:
      return env::KnobKind::kMicroseconds;
    case storage::KnobKind::kChoice:
      return env::KnobKind::kChoice;
    case storage::KnobKind::kInteger:
      break;
  }
  return env::KnobKind::kInteger;
}

std::string DeviceClassOf(const std::string& model) {
  return model == "disk-7200" ? "disk" : model;
}

storage::TripConditions ToStorage(const env::TripConditions& trips) {
  return {.read_p99_us_max = trips.read_p99_us_max,
          .write_p99_us_max = trips.write_p99_us_max,
          .errors_max = trips.errors_max,
          .log_fill_per_s_max = trips.log_fill_per_s_max,
          .throughput_ops_min = trips.throughput_ops_min};
}

}  // namespace

env::KnobSpace TwinKnobSpace(uint64_t host_memory_bytes) {
  std::vector<env::KnobSpec> knobs;
  for (const storage::KnobSpec& knob : storage::KnobTable()) {
    env::KnobSpec spec{.name = std::string(knob.name),
                       .kind = KindOf(knob.kind),
                       .min = knob.min,
                       .max = storage::KnobMax(knob, {.host_memory_bytes = host_memory_bytes}),
                       .default_value = knob.default_value,
                       .step = knob.step,
                       .log_scale = knob.log_scale,
                       .settle_seconds = knob.settle_seconds,
                       .agent_owned = knob.owner == storage::KnobOwner::kAgent,
                       .coupled_with = std::string(knob.coupled_with),
                       .trades = std::string(knob.trades)};
    spec.default_value = std::min(spec.default_value, spec.max);
    for (const std::string_view word : knob.choices) spec.choices.emplace_back(word);
    knobs.push_back(std::move(spec));
  }
  return env::KnobSpace(std::move(knobs));
}

storage::Setting ToStorageSetting(const env::Setting& setting) {
  EBB_CHECK(setting.values.size() == storage::kKnobCount);
  storage::Setting result;
  for (size_t i = 0; i < storage::kKnobCount; ++i) {
    result.Set(static_cast<storage::KnobId>(i), setting.values[i]);
  }
  return result;
}

env::Setting ToEnvSetting(const storage::Setting& setting) {
  env::Setting result;
  for (size_t i = 0; i < storage::kKnobCount; ++i) {
    result.values.push_back(setting[static_cast<storage::KnobId>(i)]);
  }
  return result;
}

TwinEnvironment::TwinEnvironment(const TwinConfig& config,
                                 std::shared_ptr<const RequestStream> load,
                                 std::unique_ptr<Simulator> simulator, ManualClock& clock)
    : config_(config),
      load_(std::move(load)),
      simulator_(std::move(simulator)),
      clock_(clock),
      space_(TwinKnobSpace(config.simulator.node.host_memory_bytes)),
      ledger_(space_, ToEnvSetting(config.simulator.setting), Now()),
      running_(ledger_.current()),
      noise_(config.noise, config.simulator.seed + 77),
      descriptor_(config.simulator.node.volume_bytes, load_->divisor()) {
  const NodeModel& node = config.simulator.node;
  info_ = {.name = config.name,
           .uuid = fmt::format("7717{:04x}-0000-4000-8000-{:012x}", config.simulator.seed & 0xffff,
                               node.volume_bytes & 0xffffffffffff),
           .description = fmt::format("twin of {} of {} before {} x {} of {}", node.cache_device,
                                      FormatBytes(node.cache_bytes), node.capacity_count,
                                      node.capacity_device, FormatBytes(node.capacity_bytes)),
           .device_class = DeviceClassOf(node.capacity_device),
           .epoch = 1};
}

absl::StatusOr<std::unique_ptr<TwinEnvironment>> TwinEnvironment::Make(
    const TwinConfig& config, std::shared_ptr<const RequestStream> load, ManualClock& clock) {
  if (!(config.window_seconds >= 0.1 && config.window_seconds <= 3600)) {
    return absl::InvalidArgumentError("a window has 0.1 to 3600 seconds");
  }
  SimulatorConfig simulator_config = config.simulator;
  simulator_config.keep_stream = true;
  EBB_ASSIGN_OR_RETURN(auto simulator, Simulator::Make(simulator_config, *load));
  simulator->WarmUp(config.warm_up_passes);
  if (config.settle_seconds > 0) simulator->RunWindow(config.settle_seconds);
  return std::unique_ptr<TwinEnvironment>(
      new TwinEnvironment(config, std::move(load), std::move(simulator), clock));
}

TrialLedger::Now TwinEnvironment::Now() const {
  return {.monotonic_ns = clock_.MonotonicNs(), .wall_ms = clock_.WallMs()};
}

void TwinEnvironment::FollowLedger() {
  if (ledger_.trips() == nullptr) trip_wire_.reset();
  if (ledger_.current() == running_) return;
  running_ = ledger_.current();
  // The space has no value that the table refuses.
  const absl::Status applied = simulator_->Apply(ToStorageSetting(running_));
  EBB_CHECK(applied.ok());
}

void TwinEnvironment::Expire() {
  ledger_.Expire(Now());
  FollowLedger();
}

storage::TripSample TwinEnvironment::Sample() const { return totals_; }

void TwinEnvironment::CountForTrips(const WindowResult& slice) {
  const env::WindowMetrics& m = slice.metrics;
  totals_.now_ns = clock_.MonotonicNs();
  totals_.read.Merge(m.read.latency);
  totals_.write.Merge(m.write.latency);
  totals_.ops += m.read.ops + m.write.ops + m.flush.ops;
  totals_.errors += m.read.errors + m.write.errors + m.flush.errors;
  totals_.in_flight_ns_sum += static_cast<uint64_t>(m.mean_in_flight * m.seconds * 1e9);
  totals_.dirty_share = m.dirty_share;
}

void TwinEnvironment::WatchTrip() {
  if (!trip_wire_) return;
  if (const auto reading = trip_wire_->Observe(Sample())) {
    ledger_.Trip(reading->Text(), Now());
    FollowLedger();
  }
}

// What the node would see in the first block of a write.
void TwinEnvironment::AddContent(const Request& request, env::StreamEntry& entry) {
  if (request.kind != RequestKind::kWrite || request.content == Request::kUnique) return;
  const uint32_t content = load_->contents()[request.content] & ~RequestStream::kSeenOutside;
  entry.has_content = true;
  // Numbers of content that comes once lie behind those of content that comes again.
  entry.fingerprint = content != 0 ? content : uint64_t{1} << 32 | ++unique_contents_;
  entry.compressed_per_mille = request.compressed_per_mille;
}

env::WorkloadDescriptor TwinEnvironment::Describe(const WindowResult& window) {
  // In the simulated time of a sample: rates are those of the load, counts are not.
  const uint64_t divisor = load_->time_divisor();
  std::vector<env::StreamEntry> entries;
  entries.reserve(window.stream.size());
  for (const SeenRequest& seen : window.stream) {
    constexpr char kOps[] = {'R', 'W', 'F', 'T'};
    entries.push_back({.time_ns = seen.time_ns,
                       .op = kOps[static_cast<size_t>(seen.kind)],
                       .offset = seen.offset,
                       .bytes = seen.bytes,
                       .service_ns = seen.service_ns});
    AddContent(load_->requests()[seen.record], entries.back());
  }
  descriptor_.Add(entries, 1);
  const env::WindowMetrics& m = window.metrics;
  return descriptor_.Finish({.seconds = m.seconds / static_cast<double>(divisor),
                             .reads = m.read.ops / divisor,
                             .writes = m.write.ops / divisor,
                             .read_bytes = m.read.bytes / divisor,
                             .write_bytes = m.write.bytes / divisor,
                             .mean_in_flight = m.mean_in_flight});
}

absl::StatusOr<env::Observation> TwinEnvironment::Observe() {
  Expire();
  last_window_ = {};
  const auto slices = std::max(1L, std::lround(config_.window_seconds / kSliceSeconds));
  const double slice_seconds = config_.window_seconds / static_cast<double>(slices);
  for (long i = 0; i < slices; ++i) {
    const WindowResult slice = simulator_->RunWindow(slice_seconds);
    clock_.AdvanceNs(static_cast<uint64_t>(slice_seconds * 1e9));
    CountForTrips(slice);
    Merge(slice, last_window_);
    WatchTrip();
    Expire();
  }
  env::Observation seen;
  seen.descriptor = Describe(last_window_);
  noise_.Disturb(config_.simulator.closed_loop_clients > 0, last_window_.metrics);
  seen.metrics = last_window_.metrics;
  seen.sequence = ++sequence_;
  seen.wall_ms = clock_.WallMs();
  seen.monotonic_ns = clock_.MonotonicNs();
  seen.setting = ledger_.current();
  seen.setting_version = ledger_.version();
  seen.setting_changed = ledger_.TakeChanged();
  seen.void_reason = std::exchange(void_reason_, "");
  seen.valid = seen.void_reason.empty();
  return seen;
}

absl::StatusOr<env::SettingState> TwinEnvironment::ReadSettings() {
  Expire();
  return ledger_.State();
}

absl::StatusOr<env::AppliedSetting> TwinEnvironment::Apply(const env::Setting& candidate,
                                                           uint64_t base_version,
                                                           const env::LeaseTerms& terms) {
  auto applied = ledger_.Apply(candidate, base_version, terms, Now());
  FollowLedger();
  if (applied.ok()) {
    totals_.now_ns = clock_.MonotonicNs();
    trip_wire_.emplace(ToStorage(terms.trips), Sample());
  }
  return applied;
}

absl::Status TwinEnvironment::Renew(const std::string& lease, uint64_t lease_ms) {
  absl::Status renewed = ledger_.Renew(lease, lease_ms, Now());
  FollowLedger();
  return renewed;
}

absl::StatusOr<uint64_t> TwinEnvironment::Commit(const std::string& lease) {
  auto committed = ledger_.Commit(lease, Now());
  FollowLedger();
  return committed;
}

absl::StatusOr<uint64_t> TwinEnvironment::Revert(const std::string& lease,
                                                 const std::string& reason) {
  auto reverted = ledger_.Revert(lease, reason, Now());
  FollowLedger();
  return reverted;
}

absl::StatusOr<uint64_t> TwinEnvironment::SetIncumbent(const env::Setting& setting,
                                                       const std::string& actor,
                                                       const std::string& reason) {
  auto version = ledger_.SetIncumbent(setting, actor, reason, Now());
  FollowLedger();
  return version;
}

absl::StatusOr<std::vector<env::NodeEvent>> TwinEnvironment::Events(uint64_t after) {
  Expire();
  return ledger_.EventsAfter(after);
}

void TwinEnvironment::Restart() {
  ledger_.Restart(Now());
  FollowLedger();
  descriptor_.Reset();
  ++info_.epoch;
  void_reason_ = "the node restarted within this window";
}

}  // namespace ebb::twin
