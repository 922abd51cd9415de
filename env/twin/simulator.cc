#include "env/twin/simulator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

using storage::KnobId;

// Records ahead whose blocks are brought near: a miss of memory takes as long as some requests.
constexpr uint32_t kPrefetchRecords = 12;

bool ReadyLater(uint64_t a, uint64_t b) { return a > b; }

absl::StatusOr<std::unique_ptr<storage::ServiceModel>> MakeDevice(
    const std::optional<storage::ServiceParameters>& fitted, const std::string& name,
    uint64_t bytes, uint64_t seed, double speed) {
  storage::ServiceModelOptions options{.device_bytes = bytes, .seed = seed};
  if (fitted) return storage::MakeServiceModel(*fitted, options);
  options.scale = speed;
  return storage::MakeServiceModel(name, options);
}

NodeModel MadeSmaller(NodeModel node, const RequestStream& load) {
  const auto part = [&](uint64_t bytes) {
    return static_cast<uint64_t>(static_cast<double>(bytes) / load.divisor()) / kBlockBytes *
           kBlockBytes;
  };
  node.volume_bytes = part(node.volume_bytes);
  node.cache_bytes = part(node.cache_bytes);
  node.capacity_bytes = part(node.capacity_bytes);
  return node;
}

}  // namespace

absl::Status NodeModel::Check() const {
  if (cores < 1 || cores > 256 || workers < 1 || workers > 4096) {
    return absl::InvalidArgumentError("a node has 1 to 256 cores and 1 to 4096 workers");
  }
  if (capacity_count < 1 || capacity_count > 7) {
    return absl::InvalidArgumentError("a disk group has 1 to 7 capacity devices");
  }
  if (cache_bytes < 16 * kMiB || capacity_bytes < 64 * kMiB || volume_bytes < 16 * kMiB) {
    return absl::InvalidArgumentError(
        "the cache and the volume have at least 16 MiB, a capacity device 64 MiB");
  }
  if (uint64_t{static_cast<uint32_t>(capacity_count)} * capacity_bytes > (8ULL << 40)) {
    return absl::InvalidArgumentError("the capacity devices have at most 8 TiB together");
  }
  return absl::OkStatus();
}

Simulator::Simulator(const SimulatorConfig& config, const NodeModel& node,
                     const RequestStream& load, std::unique_ptr<storage::ServiceModel> cache,
                     std::vector<std::unique_ptr<storage::ServiceModel>> capacity)
    : config_(config),
      node_(node),
      load_(load),
      divisor_(load.divisor()),
      time_divisor_(load.time_divisor()),
      cache_(std::move(cache)),
      capacity_devices_(std::move(capacity)),
      table_(load.block_count()),
      log_(LogModel::ChooseGeometry(node.cache_bytes, load.divisor()), table_, *cache_),
      read_cache_(table_),
      capacity_(node, load, load.divisor(), table_),
      cpu_(node.cores),
      device_written_(capacity_devices_.size(), false) {}

absl::StatusOr<std::unique_ptr<Simulator>> Simulator::Make(const SimulatorConfig& config,
                                                           const RequestStream& load) {
  if (absl::Status status = config.node.Check(); !status.ok()) return status;
  const NodeModel node = MadeSmaller(config.node, load);
  auto cache = MakeDevice(node.cache_fitted, node.cache_device, node.cache_bytes, config.seed,
                          node.cache_speed);
  if (!cache.ok()) return cache.status();
  std::vector<std::unique_ptr<storage::ServiceModel>> capacity;
  for (int i = 0; i < node.capacity_count; ++i) {
    auto device = MakeDevice(node.capacity_fitted, node.capacity_device, node.capacity_bytes,
                             config.seed + 1 + static_cast<uint64_t>(i), node.capacity_speed);
    if (!device.ok()) return device.status();
    capacity.push_back(*std::move(device));
  }
  std::unique_ptr<Simulator> simulator(
      new Simulator(config, node, load, *std::move(cache), std::move(capacity)));
  if (absl::Status status = simulator->Apply(config.setting); !status.ok()) return status;
  if (node.prefilled && !simulator->capacity_.Prefill(simulator->CurrentChoice())) {
    return absl::InvalidArgumentError(
        fmt::format("the volume does not fit the capacity devices, {} of {}", node.capacity_count,
                    FormatBytes(config.node.capacity_bytes)));
  }
  if (node.prefilled) simulator->log_.UseAllBuffers();
  for (int i = 0; i < config.closed_loop_clients; ++i) {
    simulator->clients_.push_back({.ready_ns = 0, .number = static_cast<uint32_t>(i)});
  }
  simulator->WakeBackground(kNsPerMs, Stage::kDecide);
  return simulator;
}

absl::Status Simulator::Apply(const storage::Setting& setting) {
  const std::vector<std::string> faults =
      storage::SettingFaults(setting, {.host_memory_bytes = config_.node.host_memory_bytes});
  if (!faults.empty()) return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  setting_ = setting;
  readahead_blocks_ = static_cast<uint32_t>(setting[KnobId::kReadaheadBlocks]);
  // Runs within a page are what they were; beyond, a stream is as many times shorter as the volume
  // is smaller.
  const auto bypass_bytes = static_cast<uint64_t>(setting[KnobId::kSequentialBypassBytes]);
  constexpr uint64_t kPageBytes = uint64_t{kPageBlocks} * kBlockBytes;
  bypass_bytes_ = std::min(bypass_bytes, kPageBytes);
  if (bypass_bytes > kPageBytes) {
    bypass_bytes_ +=
        static_cast<uint64_t>(static_cast<double>(bypass_bytes - kPageBytes) / divisor_);
  }
  softness_ = static_cast<int>(setting[KnobId::kThrottleSoftness]);
  watermark_ = static_cast<int>(setting[KnobId::kDestageWatermark]);
  lower_mark_ = storage::DestagePacing::LowerMark(watermark_);
  throttle_start_ = storage::WriteThrottle::StartFill(softness_, watermark_);
  flush_group_us_ = static_cast<uint64_t>(setting[KnobId::kFlushGroupUs]);
  log_.SetReadShare(static_cast<double>(setting[KnobId::kNvmeReadShare]) / 100);
  read_cache_.SetPolicy(setting.As<storage::ReadPolicy>(KnobId::kReadPolicy));
  read_cache_.SetAdmission(setting.As<storage::ReadAdmission>(KnobId::kReadAdmission));
  read_cache_.SetTargetBytes(static_cast<uint64_t>(setting[KnobId::kReadCacheBytes]), divisor_);
  if (setting[KnobId::kScrubMibps] > 0 && !scrubbing_ && load_.page_count() > 0) {
    scrubbing_ = true;
    events_.Add(now_ns_, kScrub, 0);
  }
  Kick(now_ns_);
  return absl::OkStatus();
}

StoreChoice Simulator::CurrentChoice() const {
  return {.compression = setting_.As<storage::Compression>(KnobId::kCompression),
          .unit_bytes = static_cast<uint32_t>(setting_[KnobId::kCompressionUnitBytes]),
          .dedup = setting_.As<storage::Dedup>(KnobId::kDedup),
          .parallelism = static_cast<int>(setting_[KnobId::kDestageParallelism])};
}

uint64_t Simulator::ArrivalNs() const {
  if (config_.closed_loop_clients > 0) return clients_.empty() ? kNever : clients_.front().ready_ns;
  if (load_.requests().empty()) return kNever;
  return pass_begin_ns_ + load_.requests()[next_record_].time_ns;
}

// When the next request of the load can begin: it has come, and a worker is free.
uint64_t Simulator::NextStart() {
  const uint64_t arrival_ns = ArrivalNs();
  if (arrival_ns == kNever) return kNever;
  const uint64_t at_ns = std::max(arrival_ns, now_ns_);
  while (!workers_.empty() && workers_.front() <= at_ns) {
    std::pop_heap(workers_.begin(), workers_.end(), ReadyLater);
    workers_.pop_back();
  }
  if (workers_.size() + workers_waiting_ < static_cast<size_t>(node_.workers)) return at_ns;
  return workers_.empty() ? kNever : workers_.front();
}

void Simulator::ServeNext(uint64_t now_ns) {
  const std::span<const Request> requests = load_.requests();
  const uint32_t record = next_record_;
  const uint64_t arrival_ns = ArrivalNs();
  const uint32_t end = load_.EndOf(record);
  if (record + kPrefetchRecords < requests.size()) {
    __builtin_prefetch(&table_[requests[record + kPrefetchRecords].first_block], 1);
  }
  next_record_ = end;
  if (end == requests.size()) {
    next_record_ = 0;
    pass_begin_ns_ += load_.duration_ns();
  }
  Served served{.record = record, .arrival_ns = arrival_ns};
  if (config_.closed_loop_clients > 0) {
    std::pop_heap(clients_.begin(), clients_.end(),
                  [](const Client& a, const Client& b) { return a.ready_ns > b.ready_ns; });
    served.client = clients_.back().number;
    clients_.pop_back();
  }
  switch (requests[record].kind) {
    case RequestKind::kRead:
      return ServeRead(served, end, now_ns);
    case RequestKind::kWrite:
    case RequestKind::kTrim:
      return ServeWrite(served, end, now_ns);
    case RequestKind::kFlush:
      return ServeFlush(served, now_ns);
  }
}

void Simulator::RunEvent(const Event& event) {
  switch (event.kind) {
    case kReadStage:
      return ReadStage(event.argument, event.time_ns);
    case kHeldWrite:
      return TryAppend(event.argument, event.time_ns);
    case kFlushBegin:
      if (event.argument == flush_generation_ && flush_state_ == FlushState::kGathering) {
        BeginFlush(event.time_ns);
      }
      return;
    case kFlushDevice:
      events_.Add(cache_->CompletionNs(event.time_ns, {storage::Io::Kind::kFlush, 0, 0}),
                  kFlushDone, 0);
      return;
    case kFlushDone:
      return EndFlush(event.time_ns);
    case kBackground:
      if (event.argument == background_generation_) Background(event.time_ns);
      return;
    case kScrub:
      return Scrub(event.time_ns);
  }
}

uint64_t Simulator::DeviceWaitNs() const {
  return static_cast<uint64_t>(node_.cpu.device_wait +
                               node_.cpu.contended_wake * cpu_.Contention());
}

uint32_t Simulator::TakePending(const Served& served) {
  if (free_pending_.empty()) {
    free_pending_.push_back(static_cast<uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  const uint32_t number = free_pending_.back();
  free_pending_.pop_back();
  Pending& pending = pending_[number];
  pending.served = served;
  pending.copies = false;
  pending.record = served.record;
  pending.record_block = 0;
  pending.end_record = 0;
  pending.blocks = 0;
  pending.blocks_done = 0;
  pending.next_transfer = 0;
  pending.transfers.clear();
  pending.fills.clear();
  pending.from_capacity.clear();
  ++workers_waiting_;
  return number;
}

void Simulator::CompletePending(uint32_t number, uint64_t done_ns) {
  --workers_waiting_;
  free_pending_.push_back(number);
  // A flush may be answered by one that began while this request still waited for a core.
  const Served& served = pending_[number].served;
  Complete(served, std::max(done_ns, served.entry_ns));
}

void Simulator::Complete(const Served& served, uint64_t done_ns) {
  if (done_ns > now_ns_) {
    workers_.push_back(done_ns);
    std::push_heap(workers_.begin(), workers_.end(), ReadyLater);
  }
  const Request& request = load_.requests()[served.record];
  const uint64_t seen_ns = done_ns + node_.client_overhead_ns;
  const Late one{.done_ns = done_ns,
                 .latency_ns = done_ns - served.entry_ns,
                 .client_ns = seen_ns - served.arrival_ns,
                 .bytes = request.bytes,
                 .kind = request.kind};
  if (done_ns <= window_end_ns_) {
    Record(one);
  } else {
    late_.push_back(one);
  }
  if (config_.closed_loop_clients > 0) {
    clients_.push_back({.ready_ns = seen_ns, .number = served.client});
    std::push_heap(clients_.begin(), clients_.end(),
                   [](const Client& a, const Client& b) { return a.ready_ns > b.ready_ns; });
  }
  if (config_.keep_stream) {
    window_.stream.push_back({.time_ns = served.entry_ns,
                              .kind = request.kind,
                              .offset = request.kind == RequestKind::kFlush
                                            ? 0
                                            : load_.PlaceOf(request.first_block) * kBlockBytes,
                              .bytes = request.bytes,
                              .service_ns = one.latency_ns,
                              .record = served.record});
  }
}

void Simulator::Record(const Late& one) {
  in_flight_ns_ += static_cast<double>(one.latency_ns);
  env::OpWindow* op = nullptr;
  switch (one.kind) {
    case RequestKind::kRead:
      op = &window_.metrics.read;
      break;
    case RequestKind::kWrite:
      op = &window_.metrics.write;
      break;
    case RequestKind::kFlush:
      op = &window_.metrics.flush;
      break;
    case RequestKind::kTrim:
      return;
  }
  op->bytes += uint64_t{one.bytes} * time_divisor_;
  op->latency.Record(one.latency_ns, time_divisor_);
  if (one.kind != RequestKind::kFlush) window_.client.Record(one.client_ns, time_divisor_);
}

void Simulator::BeginWindow() {
  window_ = {};
  in_flight_ns_ = 0;
  hits_ = 0;
  std::vector<Late> later;
  for (const Late& one : late_) {
    if (one.done_ns <= window_end_ns_) {
      Record(one);
    } else {
      later.push_back(one);
    }
  }
  late_ = std::move(later);
}

void Simulator::EndWindow(double seconds) {
  env::WindowMetrics& m = window_.metrics;
  const auto whole = [&](uint64_t part) {
    return static_cast<uint64_t>(static_cast<double>(part) * divisor_);
  };
  const auto in_time = [&](uint64_t part) { return part * time_divisor_; };
  m.seconds = seconds;
  m.mean_in_flight = in_flight_ns_ * time_divisor_ / (seconds * 1e9);
  m.dirty_bytes = whole(log_.dirty_blocks() * kBlockBytes);
  m.free_bytes = whole(log_.free_bytes());
  m.cache_space_bytes = whole(log_.space_bytes());
  m.clean_bytes = m.cache_space_bytes - m.dirty_bytes - m.free_bytes;
  m.dirty_share = std::max(log_.fill(), static_cast<double>(log_.dirty_blocks() * kBlockBytes) /
                                            static_cast<double>(log_.write_space_bytes()));
  m.logical_bytes = whole(capacity_.usage().logical_blocks * kBlockBytes);
  m.unique_bytes = std::min(m.logical_bytes, whole(capacity_.usage().unique_blocks * kBlockBytes));
  m.physical_bytes = whole(capacity_.physical_bytes());
  m.destaged_bytes = in_time(m.destaged_bytes);
  m.capacity_written_bytes = in_time(capacity_.counters().written_bytes - capacity_written_before_);
  m.throttle_seconds *= time_divisor_;
  m.cpu_seconds = (cpu_.total_ns() - cpu_before_ns_) * time_divisor_ / 1e9;
  window_.coalesced_blocks = in_time(log_.coalesced_blocks() - coalesced_before_);
  for (uint64_t* const count :
       {&window_.read_blocks_dram, &window_.read_blocks_cache, &window_.read_blocks_capacity,
        &window_.read_blocks_unmapped, &window_.copied_blocks}) {
    *count = in_time(*count);
  }
  window_.log_fill = log_.fill();
  Derive(window_);
  if (config_.closed_loop_clients == 0) {
    const uint64_t arrival_ns = ArrivalNs();
    window_.late_ns = arrival_ns < now_ns_ ? now_ns_ - arrival_ns : 0;
  }
}

WindowResult Simulator::RunWindow(double seconds) {
  const uint64_t begin_ns = now_ns_;
  window_end_ns_ = begin_ns + NodeToSimulated(static_cast<uint64_t>(seconds * 1e9));
  BeginWindow();
  capacity_written_before_ = capacity_.counters().written_bytes;
  coalesced_before_ = log_.coalesced_blocks();
  cpu_before_ns_ = cpu_.total_ns();
  for (;;) {
    const uint64_t start_ns = NextStart();
    const uint64_t event_ns = events_.next_ns();
    if (std::min(start_ns, event_ns) >= window_end_ns_) break;
    if (event_ns <= start_ns) {
      now_ns_ = std::max(now_ns_, event_ns);
      RunEvent(events_.Take());
    } else {
      now_ns_ = start_ns;
      ServeNext(start_ns);
    }
  }
  now_ns_ = window_end_ns_;
  EndWindow(seconds);
  return std::move(window_);
}

}  // namespace ebb::twin
