#include "experiments/fidelity_bench/live_node.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/prctl.h>

#include "base/clock.h"
#include "base/cpu_time.h"
#include "base/status.h"
#include "base/trace/trace_content.h"
#include "experiments/fidelity_bench/gate_clock.h"
#include "fmt/format.h"
#include "storage-backend/device/device_wrapper.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::fidelity_bench {
namespace {

using storage::KnobId;
using storage::Volume;
using storage::VolumeMetrics;
using trace::kTraceBlockBytes;
using trace::TraceOp;
using trace::TraceRecord;

constexpr uint64_t kRequestBytesMax = kMiB;

// `data` as the record has it in pass `pass` of the load.
void FillContent(const Workload& workload, size_t index, uint64_t pass, std::span<std::byte> data) {
  const TraceRecord& record = workload.records[index];
  thread_local std::vector<uint64_t> fingerprints;
  fingerprints = record.fingerprints;
  for (size_t i = 0; i < fingerprints.size(); ++i) {
    if (workload.keeps_content[index][i] || fingerprints[i] == 0) continue;
    const uint64_t level = fingerprints[i] & 15;
    fingerprints[i] = ((fingerprints[i] + pass * 0x9e3779b97f4a7c15ULL) & ~uint64_t{15}) | level;
  }
  trace::MakeContent(record.offset, fingerprints, data);
}

absl::Status Execute(Volume& volume, const TraceRecord& record, std::span<std::byte> buffer) {
  const std::span<std::byte> data = buffer.first(std::min<size_t>(record.bytes, buffer.size()));
  switch (record.op) {
    case TraceOp::kRead:
      return volume.Read(record.offset, data);
    case TraceOp::kWrite:
      return volume.Write(record.offset, data, record.fua);
    case TraceOp::kFlush:
      return volume.Flush();
    case TraceOp::kTrim:
      return volume.Trim(record.offset, record.bytes, record.fua);
    case TraceOp::kWriteZeroes:
      return volume.WriteZeroes(record.offset, record.bytes, record.fua);
  }
  return absl::OkStatus();
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

env::OpWindow Difference(const storage::OpCounters& after, const storage::OpCounters& before) {
  env::OpWindow window;
  window.latency = after.latency.Since(before.latency);
  window.ops = after.ops - before.ops;
  window.bytes = after.bytes - before.bytes;
  window.errors = after.errors - before.errors;
  window.p50_ns = window.latency.QuantileNs(0.5);
  window.p99_ns = window.latency.QuantileNs(0.99);
  window.mean_ns = window.latency.MeanNs();
  return window;
}

Outcome Difference(const VolumeMetrics& after, const VolumeMetrics& before, double seconds) {
  Outcome outcome;
  env::WindowMetrics& m = outcome.metrics;
  m.seconds = seconds;
  m.read = Difference(after.read, before.read);
  m.write = Difference(after.write, before.write);
  m.flush = Difference(after.flush, before.flush);
  m.dirty_share = after.dirty_share;
  m.destaged_bytes = (after.destaged_blocks - before.destaged_blocks) * kTraceBlockBytes;
  m.capacity_written_bytes = after.capacity_written_bytes - before.capacity_written_bytes;
  m.throttle_seconds = static_cast<double>(after.throttle_ns - before.throttle_ns) / 1e9;
  const uint64_t dram = after.read_blocks_dram - before.read_blocks_dram;
  const uint64_t cache = after.read_blocks_cache - before.read_blocks_cache;
  const uint64_t capacity = after.read_blocks_capacity - before.read_blocks_capacity;
  m.read_hit_share = Share(dram + cache, dram + cache + capacity);
  outcome.dram_share = Share(dram, dram + cache + capacity);
  outcome.cache_share = Share(cache, dram + cache + capacity);
  outcome.log_fill = after.dirty_share;
  outcome.bytes_per_s = static_cast<double>(m.read.bytes + m.write.bytes) / seconds;
  outcome.destage_batches = after.destage_batches - before.destage_batches;
  outcome.coalesced_blocks = after.coalesced_blocks - before.coalesced_blocks;
  return outcome;
}

// Above the watermark, until destage rests again: with time it would keep the log there, and the
// twin's warm-up does. Not for ever: trimmed or held back blocks may keep it above. The throttle
// must not be met here: it would remember how fast devices are that take no time.
void WaitForDestage(Volume& volume, Clock& clock, double watermark) {
  constexpr uint64_t kRestNs = 4 * kNsPerMs;
  double fill = volume.Metrics().dirty_share;
  if (fill <= watermark) return;
  uint64_t moved_ns = clock.MonotonicNs();
  const uint64_t deadline_ns = moved_ns + 200 * kNsPerMs;
  for (uint64_t now_ns = moved_ns; now_ns < deadline_ns; now_ns = clock.MonotonicNs()) {
    const double before = std::exchange(fill, volume.Metrics().dirty_share);
    if (fill != before) moved_ns = now_ns;
    if (fill <= watermark && now_ns >= moved_ns + kRestNs) return;
    clock.SleepUntilNs(now_ns + kNsPerMs / 2);
  }
}

}  // namespace

// Threads that take the load's requests in turn, each at its time.
struct LiveNode::Clients {
  const Workload& workload;
  Volume* volume;        // nullptr: requests cost nothing
  bool timed = true;     // else as fast as they are answered, the log kept at the watermark
  double watermark = 1;  // a share, for that
  uint64_t passes = 0;   // 0: until stopped
  uint64_t first_pass = 0;
  uint64_t begin_ns = 0;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex{};
  absl::Status status{};
  std::vector<std::thread> threads{};

  uint64_t DueNs(uint64_t number) const {
    const uint64_t count = workload.records.size();
    return begin_ns + number / count * workload.duration_ns +
           workload.records[number % count].time_ns;
  }

  // Looks now and then whether it is asked to stop: a trace may have long gaps.
  void WaitUntil(Clock& clock, uint64_t due_ns) const {
    constexpr uint64_t kLookNs = 20 * kNsPerMs;
    for (uint64_t now_ns = clock.MonotonicNs(); now_ns < due_ns && !stop;
         now_ns = clock.MonotonicNs()) {
      clock.SleepUntilNs(std::min(due_ns, now_ns + kLookNs));
    }
  }

  void Work(std::span<std::byte> buffer) {
    prctl(PR_SET_TIMERSLACK, 1'000UL);
    Clock& clock = RealClock();
    const uint64_t count = workload.records.size();
    while (!stop) {
      const uint64_t number = next++;
      const uint64_t pass = number / count;
      if (passes > 0 && pass >= passes) return;
      const size_t index = number % count;
      const TraceRecord& record = workload.records[index];
      if (timed) {
        WaitUntil(clock, DueNs(number));
      } else if (number % 4 == 0) {
        WaitForDestage(*volume, clock, watermark);
      }
      // At the last moment: a node's data has just come in, and is in the processor's caches.
      if (record.op == TraceOp::kWrite) {
        FillContent(workload, index, first_pass + pass, buffer.first(record.bytes));
      }
      if (volume == nullptr || stop) continue;
      if (absl::Status result = Execute(*volume, record, buffer); !result.ok()) {
        const std::lock_guard lock(mutex);
        status.Update(result);
        stop = true;
      }
    }
  }

  void Start(std::vector<AlignedBuffer>& buffers, int count) {
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([this, &buffers, i] { Work(buffers[static_cast<size_t>(i)].span()); });
    }
  }
  void Join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

LiveNode::LiveNode(std::string metadata_dir) : metadata_dir_(std::move(metadata_dir)) {
  for (int i = 0; i < kClientThreads; ++i) buffers_.emplace_back(kRequestBytesMax);
}

LiveNode::~LiveNode() {
  std::error_code error;
  std::filesystem::remove_all(metadata_dir_, error);
}

absl::StatusOr<std::unique_ptr<Volume>> LiveNode::Open(const Workload& workload,
                                                       const storage::Setting& setting,
                                                       Clock& clock, uint64_t seed) {
  const NodeShape& shape = workload.shape;
  std::error_code error;
  std::filesystem::remove_all(metadata_dir_, error);
  std::filesystem::create_directories(metadata_dir_, error);
  if (error) return absl::UnavailableError(fmt::format("cannot make {}", metadata_dir_));
  const size_t device_count = 1 + static_cast<size_t>(shape.capacity_count);
  std::vector<std::unique_ptr<storage::Device>> devices;
  for (size_t i = 0; i < device_count; ++i) {
    const uint64_t bytes = i == 0 ? shape.cache_bytes : shape.capacity_bytes;
    if (memory_.size() <= i) memory_.push_back(nullptr);
    if (memory_[i] == nullptr || memory_[i]->size_bytes() != bytes) {
      memory_[i] = std::make_unique<storage::MemDevice>(bytes);
    }
    // Blank is what has no superblock at either end; the log must not find older groups.
    EBB_RETURN_IF_ERROR(memory_[i]->Discard(0, i == 0 ? bytes : kMiB));
    EBB_RETURN_IF_ERROR(memory_[i]->Discard(bytes - kMiB, kMiB));
    storage::ShapeOptions options{.model = i == 0 ? shape.cache_model : shape.capacity_model,
                                  .seed = seed + i,
                                  .scale = i == 0 ? shape.cache_speed : shape.capacity_speed};
    EBB_ASSIGN_OR_RETURN(
        auto shaped, storage::ShapedDevice::Make(
                         std::make_unique<storage::DeviceWrapper>(*memory_[i]), options, clock));
    devices.push_back(std::move(shaped));
  }
  EBB_ASSIGN_OR_RETURN(auto metadata, storage::OpenRocksMetadata(metadata_dir_));
  storage::VolumeConfig config;
  config.volume_bytes = shape.volume_bytes;
  config.limits.host_memory_bytes = shape.host_memory_bytes;
  config.setting = setting;
  std::unique_ptr<storage::Device> cache = std::move(devices.front());
  devices.erase(devices.begin());
  return Volume::Open(config, std::move(cache), std::move(devices), std::move(metadata),
                      RealClock());
}

// Every block of the volume, in order, all of it destaged as the setting says.
absl::Status LiveNode::Prefill(Volume& volume, const Workload& workload,
                               const storage::Setting& setting) {
  storage::Setting fast = setting;
  fast.Set(KnobId::kNvmeReadShare, 0);  // nothing of it stays in the log: the twin's is empty
  fast.Set(KnobId::kDestageWatermark, 5);
  fast.Set(KnobId::kThrottleSoftness, 0);
  fast.Set(KnobId::kDestagePoliteness, 0);
  fast.Set(KnobId::kDestageParallelism, 2);
  fast.Set(KnobId::kDestageBatchBytes, static_cast<int64_t>(8 * kMiB));
  EBB_RETURN_IF_ERROR(volume.Apply(fast));
  AlignedBuffer& buffer = buffers_.front();
  for (uint64_t at = 0; at < workload.shape.volume_bytes; at += buffer.size()) {
    for (uint64_t i = 0; i < buffer.size(); i += kTraceBlockBytes) {
      const uint64_t number = (at + i) / kTraceBlockBytes + (uint64_t{1} << 50);
      trace::MakeContent(number << 4 | kPrefillLevel, buffer.span(i, kTraceBlockBytes));
    }
    EBB_RETURN_IF_ERROR(volume.Write(at, buffer.span(), /*fua=*/false));
  }
  EBB_RETURN_IF_ERROR(volume.Drain(nullptr));
  return volume.Apply(setting);
}

// The load without its times, as often as the twin lets it pass: until the log was filled once.
absl::Status LiveNode::WarmUp(Volume& volume, const Workload& workload,
                              const storage::Setting& setting, const RunTimes& times) {
  const auto appended = [&volume] {
    const VolumeMetrics metrics = volume.Metrics();
    return metrics.cache_data_bytes + metrics.cache_copied_bytes;
  };
  const uint64_t before_bytes = appended();
  const double watermark = static_cast<double>(setting[KnobId::kDestageWatermark]) / 100;
  for (int pass = 0; pass < times.warm_up_passes; ++pass) {
    Clients clients{.workload = workload,
                    .volume = &volume,
                    .timed = false,
                    .watermark = watermark,
                    .passes = 1,
                    .first_pass = 1'000 + static_cast<uint64_t>(pass)};
    clients.Start(buffers_, 1);
    clients.Join();
    EBB_RETURN_IF_ERROR(clients.status);
    if (appended() - before_bytes >= volume.Metrics().cache_space_bytes) break;
  }
  WaitForDestage(volume, RealClock(), watermark);
  return absl::OkStatus();
}

absl::StatusOr<Outcome> LiveNode::Run(const Workload& workload, const storage::Setting& setting,
                                      const RunTimes& times, uint64_t seed) {
  GateClock device_clock;
  EBB_ASSIGN_OR_RETURN(const auto volume, Open(workload, setting, device_clock, seed));
  EBB_RETURN_IF_ERROR(Prefill(*volume, workload, setting));
  EBB_RETURN_IF_ERROR(WarmUp(*volume, workload, setting, times));
  device_clock.Open();
  Clock& clock = RealClock();
  Clients clients{
      .workload = workload, .volume = volume.get(), .begin_ns = clock.MonotonicNs() + kNsPerMs};
  clients.Start(buffers_, kClientThreads);
  const auto ns = [](double seconds) { return static_cast<uint64_t>(seconds * 1e9); };
  clock.SleepUntilNs(clients.begin_ns + ns(times.settle_seconds));
  const uint64_t from_ns = clock.MonotonicNs();
  const VolumeMetrics before = volume->Metrics();
  const double cpu_before = ProcessCpuSeconds();
  clock.SleepUntilNs(clients.begin_ns + ns(times.settle_seconds + times.measure_seconds));
  const uint64_t to_ns = clock.MonotonicNs();
  const VolumeMetrics after = volume->Metrics();
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  const uint64_t next_due_ns = clients.DueNs(clients.next);
  clients.stop = true;
  clients.Join();
  EBB_RETURN_IF_ERROR(clients.status);
  Outcome outcome = Difference(after, before, static_cast<double>(to_ns - from_ns) / 1e9);
  outcome.metrics.cpu_seconds = cpu_seconds;
  outcome.late_ns = next_due_ns < to_ns ? to_ns - next_due_ns : 0;
  return outcome;
}

double LiveNode::ClientCostNs(const Workload& workload, double seconds) {
  Clock& clock = RealClock();
  Clients clients{.workload = workload, .volume = nullptr, .begin_ns = clock.MonotonicNs()};
  const double begin = ProcessCpuSeconds();
  clients.Start(buffers_, kClientThreads);
  clock.SleepUntilNs(clients.begin_ns + static_cast<uint64_t>(seconds * 1e9));
  clients.stop = true;
  const uint64_t requests = std::max<uint64_t>(clients.next, 1);
  clients.Join();
  return (ProcessCpuSeconds() - begin) * 1e9 / static_cast<double>(requests);
}

}  // namespace ebb::fidelity_bench
