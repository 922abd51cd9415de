#include "storage-backend/control/node_server.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include <unistd.h>

#include "base/host_memory.h"
#include "base/status.h"
#include "base/trace/trace_content.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{KnobController::kTickIntervalMs};

// Different at every start of every node: 53 bits, so that JSON readers keep them all.
uint64_t MakeEpoch(Clock& clock) {
  uint64_t x = static_cast<uint64_t>(clock.WallMs()) * 0x9e3779b97f4a7c15U;
  x ^= clock.MonotonicNs() + static_cast<uint64_t>(getpid()) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return (x ^ (x >> 31)) >> 11;
}

StreamRecord RecordOf(char op, uint64_t offset, uint64_t bytes, bool fua) {
  StreamRecord record;
  record.op = op;
  record.fua = fua;
  record.offset = offset;
  record.bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
  return record;
}

NodeEvent::Kind KindOf(const VolumeNotice& notice) {
  switch (notice.kind) {
    case VolumeNotice::Kind::kDamage:
      return NodeEvent::Kind::kDamage;
    case VolumeNotice::Kind::kStuck:
      return NodeEvent::Kind::kStuck;
    case VolumeNotice::Kind::kDevice:
      return NodeEvent::Kind::kDevice;
    case VolumeNotice::Kind::kRecovered:
      break;
  }
  return NodeEvent::Kind::kRecovered;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeServer>> NodeServer::Start(const NodeConfig& config,
                                                              std::unique_ptr<Volume> volume,
                                                              std::vector<DeviceView> devices,
                                                              NodeServerOptions options) {
  auto node = std::unique_ptr<NodeServer>(
      new NodeServer(config, std::move(volume), std::move(devices), std::move(options)));
  if (absl::Status status = node->StartServing(); !status.ok()) {
    // The volume was opened in vain: leave its devices clean. The first error is the one to tell.
    (void)node->Close();
    return status;
  }
  return node;
}

NodeServer::NodeServer(NodeConfig config, std::unique_ptr<Volume> volume,
                       std::vector<DeviceView> devices, NodeServerOptions options)
    : config_(std::move(config)),
      options_(std::move(options)),
      clock_(*options_.clock),
      started_ns_(clock_.MonotonicNs()),
      started_wall_ms_(clock_.WallMs()),
      epoch_(MakeEpoch(clock_)),
      limits_{HostMemoryBytes()},
      volume_(std::move(volume)),
      devices_(std::move(devices)) {}

absl::Status NodeServer::StartServing() {
  std::error_code error;
  std::filesystem::create_directories(config_.state_dir, error);
  if (error) return ErrnoStatus(error.value(), "cannot make the folder " + config_.state_dir);
  KnobControllerOptions knobs;
  knobs.state_dir = config_.state_dir;
  knobs.limits = limits_;
  knobs.initial = config_.initial;
  knobs.epoch = epoch_;
  EBB_ASSIGN_OR_RETURN(
      knobs_,
      KnobController::Open(
          std::move(knobs), [this](const Setting& setting) { return volume_->Apply(setting); },
          [this] { return SampleForTrips(); }, clock_));
  drain_ = std::make_unique<DrainJob>(*volume_, clock_, [this](bool ok, std::string text) {
    knobs_->Record(ok ? NodeEvent::Kind::kDrain : NodeEvent::Kind::kError, std::move(text));
  });
  JsonRpcServerOptions server;
  server.socket_path = config_.control_socket;
  EBB_ASSIGN_OR_RETURN(server_, JsonRpcServer::Start(std::move(server), Methods()));
  watchdog_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

NodeServer::~NodeServer() { StopThreads(); }

void NodeServer::StopThreads() {
  server_.reset();
  if (drain_) drain_->Cancel();
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  watch_wake_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
}

absl::Status NodeServer::Close() {
  StopThreads();
  return volume_->Close();
}

void NodeServer::Watch() {
  std::unique_lock lock(watch_mutex_);
  while (!watch_wake_.wait_for(lock, kWatchInterval, [this] { return stopping_; })) {
    knobs_->Tick();
    TellNotices();
  }
}

void NodeServer::TellNotices() {
  for (const VolumeNotice& notice : volume_->CheckHealth()) {
    fmt::print(stderr, "ebb: {}\n", notice.text);
    knobs_->Record(KindOf(notice), notice.text);
  }
}

TripSample NodeServer::SampleForTrips() {
  const VolumeMetrics metrics = volume_->Metrics();
  TripSample sample;
  sample.read = metrics.read.latency;
  sample.write = metrics.write.latency;
  for (const OpCounters* op : {&metrics.read, &metrics.write, &metrics.flush, &metrics.trim}) {
    sample.ops += op->ops;
    sample.errors += op->errors;
  }
  sample.in_flight_ns_sum = in_flight_.IntegralNs(clock_.MonotonicNs());
  sample.dirty_share = metrics.dirty_share;
  return sample;
}

template <typename Verb>
absl::Status NodeServer::Serve(StreamRecord record, std::span<const std::byte> data, Verb verb) {
  record.time_ns = clock_.MonotonicNs();
  in_flight_.Begin(record.time_ns);
  if (options_.observer) options_.observer(record, data);
  absl::Status status = verb();
  const uint64_t end_ns = clock_.MonotonicNs();
  in_flight_.End(end_ns);
  record.service_ns =
      static_cast<uint32_t>(std::min<uint64_t>(end_ns - record.time_ns, UINT32_MAX));
  if (!data.empty() && sampler_.WantsContent(record)) {
    const size_t first_block_bytes = kBlockBytes - record.offset % kBlockBytes;
    const trace::WriteContent content = trace::DescribeContent(
        record.offset, data.first(std::min<size_t>(data.size(), first_block_bytes)));
    record.has_content = true;
    record.fingerprint = content.fingerprints[0];
    record.compressed_per_mille = content.compressed_per_mille;
  }
  sampler_.Record(record);
  return status;
}

absl::Status NodeServer::Read(uint64_t offset, std::span<std::byte> out) {
  return Serve(RecordOf('R', offset, out.size(), false), {},
               [&] { return volume_->Read(offset, out); });
}

absl::Status NodeServer::Write(uint64_t offset, std::span<const std::byte> in, bool fua) {
  return Serve(RecordOf('W', offset, in.size(), fua), in,
               [&] { return volume_->Write(offset, in, fua); });
}

absl::Status NodeServer::WriteZeroes(uint64_t offset, uint64_t bytes, bool fua) {
  return Serve(RecordOf('Z', offset, bytes, fua), {},
               [&] { return volume_->WriteZeroes(offset, bytes, fua); });
}

absl::Status NodeServer::Trim(uint64_t offset, uint64_t bytes, bool fua) {
  return Serve(RecordOf('T', offset, bytes, fua), {},
               [&] { return volume_->Trim(offset, bytes, fua); });
}

absl::Status NodeServer::Flush() {
  return Serve(RecordOf('F', 0, 0, false), {}, [&] { return volume_->Flush(); });
}

}  // namespace ebb::storage
