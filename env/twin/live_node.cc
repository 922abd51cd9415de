#include "env/twin/live_node.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/units.h"
#include "env/node/snapshot.h"
#include "env/node/stream_descriptor.h"
#include "env/node/stream_reader.h"
#include "env/twin/sampled_load.h"
#include "fmt/format.h"
#include "storage-backend/control/json_rpc_client.h"

namespace ebb::twin {
namespace {

// The node keeps 65,536 requests; asked so often, it loses none below 260,000 a second.
constexpr uint64_t kAskEveryNs = 250 * kNsPerMs;
// Below so many sampled requests their number says less than the share of the regions.
constexpr double kCorrectedMin = 1'000;
// Clients of a closed loop that are in the store so much of their time do not think in between.
constexpr double kNoThinkingShare = 0.8;

// The node's knobs by name: a later build may have others.
absl::StatusOr<storage::Setting> ReadSetting(storage::JsonRpcClient& node,
                                             std::vector<std::string>& notes) {
  EBB_ASSIGN_OR_RETURN(const std::string knobs_json, node.Call("knobs.describe"));
  EBB_ASSIGN_OR_RETURN(const env::KnobSpace space, env::DecodeKnobSpace(knobs_json));
  EBB_ASSIGN_OR_RETURN(const std::string setting_json, node.Call("knobs.get"));
  EBB_ASSIGN_OR_RETURN(const env::SettingState state, env::DecodeSettings(space, setting_json));
  storage::Setting setting;
  for (size_t i = 0; i < space.size(); ++i) {
    if (const storage::KnobSpec* spec = storage::FindKnob(space[i].name)) {
      setting.Set(spec->id, state.current.values[i]);
    } else {
      notes.push_back(fmt::format("the twin does not know the knob {}", space[i].name));
    }
  }
  return setting;
}

// Collects a node's stream, and tells the descriptor of what is new enough.
class Listener {
 public:
  Listener(storage::JsonRpcClient& node, uint64_t volume_bytes)
      : reader_(node), load_(volume_bytes), descriptor_(volume_bytes) {}

  absl::Status Read() {
    return reader_.ReadToEnd([this](const env::StreamSlice& slice) {
      dropped_ += slice.dropped;
      load_.Add(slice.entries, slice.sample_rate);
      if (listening_) descriptor_.Add(slice.entries, slice.sample_rate);
      return absl::OkStatus();
    });
  }
  void BeginListening() { listening_ = true; }

  const SampledLoad& load() const { return load_; }
  env::StreamDescriptor& descriptor() { return descriptor_; }
  uint64_t dropped() const { return dropped_; }

 private:
  env::StreamReader reader_;
  SampledLoad load_;
  env::StreamDescriptor descriptor_;
  uint64_t dropped_ = 0;
  bool listening_ = false;
};

absl::Status ListenFor(Listener& listener, uint64_t listen_ns, const WatchOptions& options,
                       Clock& clock) {
  const uint64_t begin_ns = clock.MonotonicNs();
  for (uint64_t passed_ns = 0; passed_ns < listen_ns; passed_ns = clock.MonotonicNs() - begin_ns) {
    if (options.stop != nullptr && options.stop->load()) {
      return absl::CancelledError("interrupted while the node was watched");
    }
    if (options.on_progress) {
      options.on_progress(static_cast<double>(passed_ns) / static_cast<double>(listen_ns),
                          listener.load().size());
    }
    clock.SleepUntilNs(clock.MonotonicNs() + std::min(kAskEveryNs, listen_ns - passed_ns));
    EBB_RETURN_IF_ERROR(listener.Read());
  }
  return absl::OkStatus();
}

// How many requests there were for each that the sample tells of.
double TrueShare(const SampledLoad& load, const env::NodeSnapshot& before,
                 const env::NodeSnapshot& after, const env::WindowMetrics& measured) {
  const double told = load.EstimateOps(before.monotonic_ns, after.monotonic_ns);
  if (told < kCorrectedMin * load.divisor()) return 1;
  return static_cast<double>(measured.read.ops + measured.write.ops) / told;
}

void Describe(env::StreamDescriptor& descriptor, LiveNode& live) {
  const env::WindowMetrics& m = live.measured;
  live.descriptor = descriptor.Finish({.seconds = m.seconds,
                                       .reads = m.read.ops,
                                       .writes = m.write.ops,
                                       .read_bytes = m.read.bytes,
                                       .write_bytes = m.write.bytes,
                                       .mean_in_flight = m.mean_in_flight});
  const double clients = live.descriptor.mean_in_flight;
  if (clients > 0 && m.mean_in_flight >= kNoThinkingShare * clients) {
    live.closed_loop_clients = static_cast<int>(std::lround(clients));
  }
}

absl::StatusOr<env::WindowMetrics> Measure(const env::NodeSnapshot& before,
                                           const env::NodeSnapshot& after, uint64_t our_ns) {
  if (before.setting_version != after.setting_version) {
    return absl::FailedPreconditionError(
        "the node's setting changed while it was watched: let it settle, or pause its tuner");
  }
  std::string void_reason;
  const env::WindowLimits limits = {
      .expected_seconds = static_cast<double>(our_ns) / 1e9,
      .processors = static_cast<double>(std::thread::hardware_concurrency())};
  env::WindowMetrics measured = MeasureWindow(before, after, limits, void_reason);
  if (!void_reason.empty()) return absl::FailedPreconditionError(void_reason);
  if (measured.read.ops + measured.write.ops == 0) {
    return absl::FailedPreconditionError("the node was idle: there is no load to give its twin");
  }
  return measured;
}

std::string ShapeOf(const env::NodeMachine::Device& device, const std::string& otherwise,
                    std::vector<std::string>& notes) {
  if (!device.shape.empty()) return device.shape;
  notes.push_back(
      fmt::format("{}: its service times are taken for those of {}", device.role, otherwise));
  return otherwise;
}

}  // namespace

absl::StatusOr<env::NodeSnapshot> TakeSnapshot(storage::JsonRpcClient& node) {
  EBB_ASSIGN_OR_RETURN(const std::string json, node.Call("metrics.get"));
  return env::DecodeSnapshot(json);
}

absl::StatusOr<NodeModel> ModelOf(const env::NodeMachine& machine, const env::NodeInfo& info,
                                  const env::NodeSnapshot& now, std::vector<std::string>& notes) {
  if (machine.groups != 1 || machine.devices.size() < 2) {
    return absl::FailedPreconditionError(
        fmt::format("the twin is one of a disk group, and this node has {}", machine.groups));
  }
  NodeModel model;
  const env::NodeMachine::Device& cache = machine.devices[0];
  const env::NodeMachine::Device& capacity = machine.devices[1];
  model.volume_bytes = info.volume_bytes;
  model.cache_bytes = cache.size_bytes;
  model.cache_device = ShapeOf(cache, "nvme", notes);
  model.cache_speed = cache.shape_scale;
  const std::string& device_class = info.info.device_class;
  const bool known =
      device_class == "sata-ssd" || device_class == "qlc-ssd" || device_class == "nvme";
  model.capacity_device = ShapeOf(capacity, known ? device_class : "disk-7200", notes);
  model.capacity_speed = capacity.shape_scale;
  model.capacity_count = static_cast<int>(machine.devices.size() - 1);
  model.capacity_bytes = capacity.size_bytes;
  for (size_t i = 2; i < machine.devices.size(); ++i) {
    model.capacity_bytes = std::min(model.capacity_bytes, machine.devices[i].size_bytes);
    const bool alike = machine.devices[i].shape == capacity.shape &&
                       machine.devices[i].shape_scale == capacity.shape_scale;
    if (!alike) notes.emplace_back("all capacity devices are taken for the first one's kind");
  }
  model.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  model.workers = static_cast<int>(std::clamp<uint64_t>(machine.threads, 1, 4096));
  model.host_memory_bytes = machine.host_memory_bytes;
  // The model's volume is written as a whole or not at all.
  model.prefilled = 2 * now.Gauge("logical_bytes") >= static_cast<double>(info.volume_bytes);
  if (const uint64_t raw_bytes = now.Counter("destage_raw_bytes"); raw_bytes > 0) {
    model.prefill_compressed_per_mille = 1000 *
                                         static_cast<double>(now.Counter("destage_stored_bytes")) /
                                         static_cast<double>(raw_bytes);
  }
  if (absl::Status status = model.Check(); !status.ok()) return status;
  return model;
}

absl::StatusOr<LiveNode> WatchNode(storage::JsonRpcClient& node, const WatchOptions& options,
                                   Clock& clock) {
  LiveNode live;
  EBB_ASSIGN_OR_RETURN(const std::string info_json, node.Call("node.info"));
  EBB_ASSIGN_OR_RETURN(const env::NodeInfo info, env::DecodeNodeInfo(info_json));
  EBB_ASSIGN_OR_RETURN(const env::NodeMachine machine, env::DecodeNodeMachine(info_json));
  live.name = info.info.name;
  Listener listener(node, info.volume_bytes);
  EBB_RETURN_IF_ERROR(listener.Read());
  listener.BeginListening();

  const uint64_t our_begin_ns = clock.MonotonicNs();
  EBB_ASSIGN_OR_RETURN(const env::NodeSnapshot before, TakeSnapshot(node));
  EBB_ASSIGN_OR_RETURN(live.setting, ReadSetting(node, live.notes));
  // What the node remembers counts from its first request on.
  const uint64_t first_ns = std::min(listener.load().first_ns(), before.monotonic_ns);
  const auto wanted_ns = static_cast<uint64_t>(options.minutes * 60e9);
  const uint64_t missing_ns = wanted_ns - std::min(wanted_ns, before.monotonic_ns - first_ns);
  const uint64_t listen_ns =
      std::max(static_cast<uint64_t>(options.listen_seconds * 1e9), missing_ns);
  EBB_RETURN_IF_ERROR(ListenFor(listener, listen_ns, options, clock));
  EBB_ASSIGN_OR_RETURN(const env::NodeSnapshot after, TakeSnapshot(node));
  const uint64_t our_ns = clock.MonotonicNs() - our_begin_ns;
  EBB_RETURN_IF_ERROR(listener.Read());

  EBB_ASSIGN_OR_RETURN(live.measured, Measure(before, after, our_ns));
  EBB_ASSIGN_OR_RETURN(live.model, ModelOf(machine, info, after, live.notes));
  live.dropped = listener.dropped();
  live.end_ns = after.monotonic_ns;
  // All that was measured, and what was before as far as it is wanted and remembered.
  live.begin_ns = std::min(before.monotonic_ns,
                           std::max(first_ns, live.end_ns - std::min(live.end_ns, wanted_ns)));
  Describe(listener.descriptor(), live);
  const double true_share = TrueShare(listener.load(), before, after, live.measured);
  EBB_ASSIGN_OR_RETURN(live.load, listener.load().Build(live.begin_ns, live.end_ns, true_share));
  return live;
}

}  // namespace ebb::twin
