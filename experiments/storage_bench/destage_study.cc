// How fast a cache full of dirty blocks drains: against the disks' own speed, and with a codec
// against the codec's own.
#include <algorithm>
#include <array>
#include <vector>

#include "base/clock.h"
#include "base/cpu_time.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/bench_volume.h"
#include "experiments/storage_bench/study.h"
#include "fmt/format.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::storage_bench {
namespace {

using storage::Compression;
using storage::Device;
using storage::Io;
using storage::IoQueue;
using storage::kBlockBytes;
using storage::KnobId;
using storage::Volume;

constexpr int kDevices = 2;

struct DestageSizes {
  uint64_t cache_bytes = 256 * kMiB;
  uint64_t dirty_bytes = 192 * kMiB;
};

DestageSizes SizesFor(bool quick) {
  if (!quick) return {};
  return {.cache_bytes = 64 * kMiB, .dirty_bytes = 48 * kMiB};
}

BenchVolumeOptions VolumeFor(const DestageSizes& sizes, const std::string& metadata_dir) {
  BenchVolumeOptions options;
  options.volume_bytes = 2 * sizes.cache_bytes;
  options.cache_bytes = sizes.cache_bytes;
  options.capacity_bytes = sizes.cache_bytes;
  options.capacity_devices = kDevices;
  options.metadata_dir = metadata_dir;
  options.setting = PlainSetting();
  return options;
}

// Fills the cache with blocks that lie scattered over the volume, `data` again and again, and
// drains it; bytes a second of the drain.
absl::StatusOr<double> FillAndDrain(Volume& volume, const DestageSizes& sizes,
                                    AlignedBuffer& data) {
  const uint64_t blocks = volume.volume_bytes() / kBlockBytes;
  constexpr uint64_t kStride = 1'000'003;  // shares no divisor with the volume's blocks
  for (uint64_t i = 0; i < sizes.dirty_bytes / kBlockBytes; ++i) {
    EBB_RETURN_IF_ERROR(volume.Write(i * kStride % blocks * kBlockBytes,
                                     data.span(i * kBlockBytes % data.size(), kBlockBytes),
                                     /*fua=*/false));
  }
  const uint64_t dirty_bytes = volume.Metrics().dirty_bytes;
  const double begin = NowSeconds();
  EBB_RETURN_IF_ERROR(volume.Drain(nullptr));
  return static_cast<double>(dirty_bytes) / (NowSeconds() - begin);
}

// Both devices at once, 1 MiB requests, four in flight each; durable at the end.
absl::StatusOr<double> SequentialWrite(uint64_t bytes) {
  constexpr size_t kDepth = 4;
  constexpr uint64_t kRequestBytes = kMiB;
  AlignedBuffer data(kRequestBytes);
  std::array<std::unique_ptr<Device>, kDevices> devices;
  std::array<std::unique_ptr<IoQueue>, kDevices> queues;
  std::vector<Io> transfers(bytes / kRequestBytes);
  for (int i = 0; i < kDevices; ++i) {
    EBB_ASSIGN_OR_RETURN(
        devices[static_cast<size_t>(i)],
        MakeBenchDevice(bytes / kDevices, "disk-7200", static_cast<uint64_t>(i) + 2));
    queues[static_cast<size_t>(i)] = devices[static_cast<size_t>(i)]->MakeQueue(kDepth);
  }
  const double begin = NowSeconds();
  for (size_t i = 0; i < transfers.size(); ++i) {
    IoQueue& queue = *queues[i % kDevices];
    if (queue.in_flight() == kDepth) queue.Reap(1);
    transfers[i] = {.kind = Io::Kind::kWrite,
                    .offset = i / kDevices * kRequestBytes,
                    .data = data.data(),
                    .bytes = kRequestBytes};
    queue.Submit(&transfers[i]);
  }
  for (const auto& queue : queues) queue->Reap(queue->in_flight());
  for (const Io& transfer : transfers) EBB_RETURN_IF_ERROR(transfer.status);
  for (const auto& device : devices) EBB_RETURN_IF_ERROR(device->Flush());
  return static_cast<double>(bytes) / (NowSeconds() - begin);
}

class DestageStudy final : public Study {
 public:
  explicit DestageStudy(const BenchOptions& options)
      : options_(options), sizes_(SizesFor(options.quick)) {}
  std::string name() const override { return "destage"; }

  absl::Status RunOnce(Samples& samples) override {
    BenchVolumeOptions volume_options =
        VolumeFor(sizes_, fmt::format("{}/destage-metadata-{}", options_.memory_dir, ++runs_));
    volume_options.capacity_shape = "disk-7200";
    {
      EBB_ASSIGN_OR_RETURN(const auto volume, OpenBenchVolume(volume_options));
      const double cpu_begin = ProcessCpuSeconds();
      EBB_ASSIGN_OR_RETURN(const double rate, FillAndDrain(*volume, sizes_, data_));
      samples.Add("destage.bytes_per_s", rate);
      samples.Add("destage.cpu_s_per_gib", (ProcessCpuSeconds() - cpu_begin) /
                                               static_cast<double>(sizes_.dirty_bytes) *
                                               static_cast<double>(kGiB));
      EBB_RETURN_IF_ERROR(volume->Close());
    }
    EBB_ASSIGN_OR_RETURN(const double own, SequentialWrite(sizes_.dirty_bytes));
    samples.Add("destage.device_bytes_per_s", own);
    return absl::OkStatus();
  }

 private:
  const BenchOptions options_;
  const DestageSizes sizes_;
  int runs_ = 0;
  Rng rng_{3};
  AlignedBuffer data_ = RandomBytes(128 * kKiB, rng_);
};

class DestageCodecStudy final : public Study {
 public:
  explicit DestageCodecStudy(const BenchOptions& options)
      : options_(options), sizes_(SizesFor(options.quick)) {}
  std::string name() const override { return "destage_codec"; }

  absl::Status RunOnce(Samples& samples) override {
    BenchVolumeOptions volume_options =
        VolumeFor(sizes_, fmt::format("{}/codec-metadata-{}", options_.memory_dir, ++runs_));
    storage::Setting& setting = volume_options.setting;
    setting.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kZstd1));
    setting.Set(KnobId::kDestageParallelism, kThreads);
    const auto unit_bytes = static_cast<size_t>(setting[KnobId::kCompressionUnitBytes]);
    {
      EBB_ASSIGN_OR_RETURN(const auto volume, OpenBenchVolume(volume_options));
      EBB_ASSIGN_OR_RETURN(const double rate, FillAndDrain(*volume, sizes_, data_));
      samples.Add("destage_zstd1.bytes_per_s", rate);
      const storage::VolumeMetrics metrics = volume->Metrics();
      samples.Add("destage_zstd1.stored_share", static_cast<double>(metrics.destage_stored_bytes) /
                                                    static_cast<double>(metrics.destage_raw_bytes));
      EBB_RETURN_IF_ERROR(volume->Close());
    }
    samples.Add("destage_zstd1.codec_bytes_per_s", kThreads * CodecAlone(unit_bytes));
    return absl::OkStatus();
  }

 private:
  static constexpr int kThreads = 1;

  // The codec over the same bytes in the same units, on one core.
  double CodecAlone(size_t unit_bytes) {
    storage::Compressor compressor;
    std::vector<std::byte> out(storage::MaxStoredBytes(unit_bytes));
    const double begin = NowSeconds();
    uint64_t done = 0;
    for (; done < sizes_.dirty_bytes; done += unit_bytes) {
      compressor.Compress(Compression::kZstd1, data_.span(done % data_.size(), unit_bytes), out);
    }
    return static_cast<double>(done) / (NowSeconds() - begin);
  }

  const BenchOptions options_;
  const DestageSizes sizes_;
  int runs_ = 0;
  Rng rng_{4};
  AlignedBuffer data_ = TextBytes(32 * kMiB, rng_);
};

}  // namespace

std::unique_ptr<Study> MakeDestageStudy(const BenchOptions& options) {
  return std::make_unique<DestageStudy>(options);
}

std::unique_ptr<Study> MakeDestageCodecStudy(const BenchOptions& options) {
  return std::make_unique<DestageCodecStudy>(options);
}

}  // namespace ebb::storage_bench
