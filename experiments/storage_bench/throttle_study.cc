// A burst of three times the cache in front of slow disks: how even the held-back writes are.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/bench_volume.h"
#include "experiments/storage_bench/study.h"
#include "fmt/format.h"

namespace ebb::storage_bench {
namespace {

using storage::kBlockBytes;
using storage::KnobId;
using storage::Volume;
using storage::VolumeMetrics;

constexpr int kWriters = 16;
constexpr uint64_t kSampleNs = 10 * kNsPerMs;
// A sleep of about a held write's length, to tell the machine's own share in the tail.
constexpr uint64_t kSleepNs = 500 * kNsPerUs;

// The volume's counters at one time of the burst.
struct Reading {
  uint64_t time_ns = 0;
  VolumeMetrics metrics;
};

class Burst {
 public:
  Burst(Volume& volume, std::vector<uint32_t> order, AlignedBuffer& data)
      : volume_(volume), order_(std::move(order)), data_(data) {}

  // Writes all of it; afterwards first() is the reading at the first held write and seconds() what
  // was written in each whole second from there.
  absl::Status Run() {
    std::vector<std::jthread> writers;
    for (int i = 0; i < kWriters; ++i) writers.emplace_back([this] { Write(); });
    Watch();
    writers.clear();
    last_ = {RealClock().MonotonicNs(), volume_.Metrics()};
    return status_;
  }

  const Reading& first() const { return first_; }
  const Reading& last() const { return last_; }
  const std::vector<double>& seconds() const { return bytes_by_second_; }
  // How long sleeps of half a millisecond took meanwhile.
  const LatencyHistogram& sleeps() const { return sleeps_; }

 private:
  void Write() {
    for (size_t i = next_++; i < order_.size(); i = next_++) {
      const absl::Status status = volume_.Write(uint64_t{order_[i]} * kBlockBytes,
                                                data_.span(i % 32 * kBlockBytes, kBlockBytes),
                                                /*fua=*/false);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      status_ = status;
      next_ = order_.size();
    }
  }

  void SleepAndMeasure() {
    const uint64_t begin_ns = RealClock().MonotonicNs();
    uint64_t now_ns = begin_ns;
    while (now_ns < begin_ns + kSampleNs) {
      RealClock().SleepUntilNs(now_ns + kSleepNs);
      const uint64_t woke_ns = RealClock().MonotonicNs();
      sleeps_.Record(woke_ns - now_ns);
      now_ns = woke_ns;
    }
  }

  void Watch() {
    const uint64_t held_before = volume_.Metrics().throttled_writes;
    uint64_t second_began_bytes = 0;
    uint64_t second_ends_ns = 0;
    while (next_ < order_.size()) {
      SleepAndMeasure();
      const VolumeMetrics metrics = volume_.Metrics();
      const uint64_t now_ns = RealClock().MonotonicNs();
      if (second_ends_ns == 0) {
        if (metrics.throttled_writes == held_before) continue;
        first_ = {now_ns, metrics};
      } else if (now_ns >= second_ends_ns) {
        const double seconds = static_cast<double>(now_ns - second_ends_ns + kNsPerS) / 1e9;
        bytes_by_second_.push_back(static_cast<double>(metrics.write.bytes - second_began_bytes) /
                                   seconds);
      } else {
        continue;
      }
      second_began_bytes = metrics.write.bytes;
      second_ends_ns = now_ns + kNsPerS;
    }
  }

  Volume& volume_;
  const std::vector<uint32_t> order_;
  AlignedBuffer& data_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_ while writers run
  Reading first_;
  Reading last_;
  std::vector<double> bytes_by_second_;
  LatencyHistogram sleeps_;
};

std::vector<uint32_t> DrawOrder(uint64_t blocks, uint64_t count, Rng& rng) {
  std::vector<uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  for (size_t i = 0; i < count; ++i) std::swap(order[i], order[i + rng.Below(blocks - i)]);
  order.resize(count);
  return order;
}

class ThrottleStudy final : public Study {
 public:
  explicit ThrottleStudy(const BenchOptions& options) : options_(options) {}
  std::string name() const override { return "throttle"; }

  absl::Status RunOnce(Samples& samples) override {
    const uint64_t cache_bytes = options_.quick ? 192 * kMiB : 384 * kMiB;
    BenchVolumeOptions volume_options;
    volume_options.cache_bytes = cache_bytes;
    volume_options.volume_bytes = 4 * cache_bytes;
    volume_options.capacity_bytes = 3 * cache_bytes;
    volume_options.capacity_devices = 2;
    volume_options.cache_shape = "nvme";
    volume_options.capacity_shape = "disk-7200";
    volume_options.metadata_dir =
        fmt::format("{}/throttle-metadata-{}", options_.memory_dir, ++runs_);
    // As delivered, but that content decides nothing here.
    volume_options.setting.Set(KnobId::kCompression, 0);
    volume_options.setting.Set(KnobId::kDedup, 0);
    EBB_ASSIGN_OR_RETURN(const std::unique_ptr<Volume> volume, OpenBenchVolume(volume_options));
    const uint64_t blocks = volume_options.volume_bytes / kBlockBytes;
    Burst burst(*volume, DrawOrder(blocks, 3 * cache_bytes / kBlockBytes, rng_), data_);
    EBB_RETURN_IF_ERROR(burst.Run());
    if (burst.seconds().empty()) {
      return absl::InternalError("the burst was over before the throttle worked for a second");
    }
    AddSamples(burst, samples);
    return absl::OkStatus();
  }

 private:
  static void AddSamples(const Burst& burst, Samples& samples) {
    const VolumeMetrics& before = burst.first().metrics;
    const VolumeMetrics& after = burst.last().metrics;
    const double seconds = static_cast<double>(burst.last().time_ns - burst.first().time_ns) / 1e9;
    const double drain =
        static_cast<double>((after.destaged_blocks - before.destaged_blocks) * kBlockBytes) /
        seconds;
    const double lowest = *std::min_element(burst.seconds().begin(), burst.seconds().end());
    const LatencyHistogram latency = after.write.latency.Since(before.write.latency);
    const double p50 = latency.QuantileNs(0.5);
    const double p999 = latency.QuantileNs(0.999);
    samples.Add("throttle.lowest_second_vs_drain", lowest / drain);
    samples.Add("throttle.p999_over_p50", p999 / p50);
    samples.Add("throttle.drain_mib_per_s", drain / static_cast<double>(kMiB));
    samples.Add("throttle.lowest_second_mib_per_s", lowest / static_cast<double>(kMiB));
    samples.Add("throttle.half_ms_sleep_p999_us", burst.sleeps().QuantileNs(0.999) / 1e3);
    samples.Add("throttle.seconds", seconds);
    samples.Add("throttle.write_p50_us", p50 / 1e3);
    samples.Add("throttle.write_p999_us", p999 / 1e3);
    samples.Add("throttle.write_p9999_us", latency.QuantileNs(0.9999) / 1e3);
  }

  const BenchOptions options_;
  int runs_ = 0;
  Rng rng_{2};
  AlignedBuffer data_ = RandomBytes(128 * kKiB, rng_);
};

}  // namespace

std::unique_ptr<Study> MakeThrottleStudy(const BenchOptions& options) {
  return std::make_unique<ThrottleStudy>(options);
}

}  // namespace ebb::storage_bench
