#include "experiments/presets/mixed_load.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/units.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "storage-backend/volume/volume.h"

namespace ebb::presets {
namespace {

using storage::kBlockBytes;
using storage::Volume;

constexpr uint64_t kCacheBytes = 16 * kMiB;
constexpr uint64_t kVolumeBytes = 128 * kMiB;
constexpr uint64_t kCapacityBytes = 128 * kMiB;  // of each of two
constexpr int kClients = 6;
constexpr double kThinkMeanNs = 2e6;
constexpr uint64_t kRegionBytes = 64 * kKiB;

absl::StatusOr<std::unique_ptr<storage::Device>> MakeDevice(uint64_t bytes,
                                                            const std::string& model, double scale,
                                                            uint64_t seed) {
  EBB_ASSIGN_OR_RETURN(auto shaped,
                       storage::ShapedDevice::Make(std::make_unique<storage::MemDevice>(bytes),
                                                   {.model = model, .seed = seed, .scale = scale}));
  return std::unique_ptr<storage::Device>(std::move(shaped));
}

absl::StatusOr<std::unique_ptr<Volume>> MakeVolume(const storage::Setting& setting,
                                                   const LoadOptions& options) {
  EBB_ASSIGN_OR_RETURN(auto cache, MakeDevice(kCacheBytes, "nvme", options.scale, 1));
  std::vector<std::unique_ptr<storage::Device>> capacity;
  for (uint64_t i = 0; i < 2; ++i) {
    EBB_ASSIGN_OR_RETURN(auto device,
                         MakeDevice(kCapacityBytes, options.capacity_model, options.scale, 10 + i));
    capacity.push_back(std::move(device));
  }
  storage::VolumeConfig config;
  config.volume_bytes = kVolumeBytes;
  config.setting = setting;
  return Volume::Open(config, std::move(cache), std::move(capacity),
                      std::make_unique<storage::MemMetadata>(), RealClock());
}

// Half of each block compresses; no two are alike.
void Fill(Rng& rng, std::span<std::byte> data) {
  for (size_t at = 0; at + 8 <= data.size(); at += 8) {
    const uint64_t word = at / 2048 % 2 == 0 ? rng.Next() : 0x6562622065626220;
    std::memcpy(data.data() + at, &word, sizeof word);
  }
}

absl::Status Preload(Volume& volume, Rng& rng) {
  AlignedBuffer data(kMiB);
  for (uint64_t offset = 0; offset < kVolumeBytes; offset += kMiB) {
    Fill(rng, data.span());
    EBB_RETURN_IF_ERROR(volume.Write(offset, data.span(), /*fua=*/false));
  }
  return volume.Drain(nullptr);
}

// A region of the volume, the low ranks far more often than the high ones (a power law), scattered.
uint64_t SkewedOffset(Rng& rng, uint64_t bytes) {
  constexpr uint64_t kRegions = kVolumeBytes / kRegionBytes;
  const double u = rng.Uniform();
  const auto rank = static_cast<uint64_t>(std::pow(u, 4.0) * static_cast<double>(kRegions));
  const uint64_t region = rank * 2'654'435'761 % kRegions;
  const uint64_t within = rng.Below((kRegionBytes - bytes) / kBlockBytes + 1) * kBlockBytes;
  return region * kRegionBytes + within;
}

class Client {
 public:
  Client(Volume& volume, int number, uint64_t seed)
      : volume_(volume), rng_(seed), sequential_(number == 0), data_(128 * kKiB) {
    Fill(rng_, data_.span());
  }

  absl::Status Run(uint64_t begin_ns, uint64_t end_ns) {
    Clock& clock = RealClock();
    for (uint64_t now_ns = clock.MonotonicNs(); now_ns < end_ns; now_ns = clock.MonotonicNs()) {
      const bool burst = (now_ns - begin_ns) / kNsPerS % 3 == 1;
      const bool write = !sequential_ && rng_.Chance(burst ? 0.8 : 0.35);
      EBB_RETURN_IF_ERROR(write ? Write() : Read());
      const uint64_t done_ns = clock.MonotonicNs();
      (write ? writes_ : reads_).Record(done_ns - now_ns);
      if (burst && write) continue;
      const double think_ns = -kThinkMeanNs * std::log(1 - rng_.Uniform());
      clock.SleepUntilNs(done_ns + static_cast<uint64_t>(think_ns));
    }
    return absl::OkStatus();
  }

  const LatencyHistogram& reads() const { return reads_; }
  const LatencyHistogram& writes() const { return writes_; }

 private:
  absl::Status Write() {
    const uint64_t bytes = kBlockBytes << rng_.Below(5);
    // Blocks differ from what was there and from each other.
    const uint64_t word = rng_.Next();
    for (uint64_t at = 0; at < bytes; at += kBlockBytes) {
      const uint64_t mixed = word + at;
      std::memcpy(data_.data() + at, &mixed, sizeof mixed);
    }
    return volume_.Write(SkewedOffset(rng_, bytes), data_.span(0, bytes), /*fua=*/false);
  }
  absl::Status Read() {
    if (sequential_) {
      next_ = (next_ + 128 * kKiB) % kVolumeBytes;
      return volume_.Read(next_, data_.span());
    }
    const uint64_t bytes = kBlockBytes << rng_.Below(3);
    return volume_.Read(SkewedOffset(rng_, bytes), data_.span(0, bytes));
  }

  Volume& volume_;
  Rng rng_;
  const bool sequential_;
  AlignedBuffer data_;
  uint64_t next_ = 0;
  LatencyHistogram reads_;
  LatencyHistogram writes_;
};

}  // namespace

absl::StatusOr<LoadResult> RunMixedLoad(const storage::Setting& setting,
                                        const LoadOptions& options) {
  EBB_ASSIGN_OR_RETURN(const std::unique_ptr<Volume> volume, MakeVolume(setting, options));
  Rng rng(options.seed);
  EBB_RETURN_IF_ERROR(Preload(*volume, rng));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(*volume, i, rng.Next()));
  }
  const uint64_t begin_ns = RealClock().MonotonicNs();
  const uint64_t end_ns = begin_ns + static_cast<uint64_t>(options.seconds * 1e9);
  std::vector<absl::Status> results(kClients);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = clients[i]->Run(begin_ns, end_ns); });
  }
  for (std::thread& thread : threads) thread.join();
  for (absl::Status& result : results) EBB_RETURN_IF_ERROR(std::move(result));
  LatencyHistogram reads;
  LatencyHistogram writes;
  for (const auto& client : clients) {
    reads.Merge(client->reads());
    writes.Merge(client->writes());
  }
  EBB_RETURN_IF_ERROR(volume->Close());
  LoadResult result = {
      .read_mean_us = reads.MeanNs() / 1000,
      .read_p99_us = reads.QuantileNs(0.99) / 1000,
      .write_mean_us = writes.MeanNs() / 1000,
      .write_p99_us = writes.QuantileNs(0.99) / 1000,
      .ops_per_s = static_cast<double>(reads.count() + writes.count()) / options.seconds};
  result.score_us = std::pow(
      result.read_mean_us * result.read_p99_us * result.write_mean_us * result.write_p99_us, 0.25);
  return result;
}

}  // namespace ebb::presets
