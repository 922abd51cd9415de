// How long a node takes to come back with a dirty cache, against reading as much from the device.
#include <filesystem>

#include "base/cpu_time.h"
#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/bench_volume.h"
#include "experiments/storage_bench/study.h"
#include "fmt/format.h"
#include "storage-backend/device/uring_device.h"

namespace ebb::storage_bench {
namespace {

using storage::Io;
using storage::kBlockBytes;
using storage::Volume;

class RecoveryStudy final : public Study {
 public:
  explicit RecoveryStudy(const BenchOptions& options)
      : options_(options), dirty_bytes_((options.quick ? 32 : 512) * kMiB) {}
  std::string name() const override { return "recovery"; }

  absl::Status RunOnce(Samples& samples) override {
    const std::string folder = fmt::format("{}/recovery-{}", options_.disk_dir, ++runs_);
    const std::string memory = fmt::format("{}/recovery-{}", options_.memory_dir, runs_);
    std::filesystem::create_directories(folder);
    std::filesystem::create_directories(memory);
    absl::Status status = Measure(folder, memory, samples);
    std::filesystem::remove_all(folder);
    std::filesystem::remove_all(memory);
    return status;
  }

 private:
  absl::Status Measure(const std::string& folder, const std::string& memory, Samples& samples) {
    BenchVolumeOptions options;
    options.volume_bytes = 2 * dirty_bytes_;
    options.cache_bytes = dirty_bytes_ * 5 / 4;
    options.capacity_bytes = 2 * dirty_bytes_;
    options.cache_path = folder + "/cache.img";
    options.capacity_dir = memory;
    options.metadata_dir = memory + "/metadata";
    options.setting = PlainSetting();
    EBB_RETURN_IF_ERROR(storage::CreateDeviceFile(options.cache_path, options.cache_bytes));
    uint64_t log_bytes = 0;
    {
      EBB_ASSIGN_OR_RETURN(const std::unique_ptr<Volume> volume, OpenBenchVolume(options));
      EBB_RETURN_IF_ERROR(WriteScattered(*volume));
      log_bytes = volume->Metrics().cache_written_bytes;
      // Gone without Close, as in a kill.
    }
    EBB_ASSIGN_OR_RETURN(const double own, SequentialRead(options.cache_path, log_bytes));
    samples.Add("recovery.device_bytes_per_s", own);
    const double cpu_begin = ProcessCpuSeconds();
    const double begin = NowSeconds();
    EBB_ASSIGN_OR_RETURN(const std::unique_ptr<Volume> volume, OpenBenchVolume(options));
    const double seconds = NowSeconds() - begin;
    if (volume->Metrics().dirty_bytes != dirty_bytes_) {
      return absl::DataLossError("recovery did not find every block");
    }
    samples.Add("recovery.bytes_per_s", static_cast<double>(log_bytes) / seconds);
    samples.Add("recovery.seconds", seconds);
    samples.Add("recovery.cpu_s", ProcessCpuSeconds() - cpu_begin);
    return volume->Close();
  }

  absl::Status WriteScattered(Volume& volume) {
    constexpr uint64_t kStride = 1'000'003;  // shares no divisor with the volume's blocks
    const uint64_t blocks = volume.volume_bytes() / kBlockBytes;
    for (uint64_t i = 0; i < dirty_bytes_ / kBlockBytes; ++i) {
      EBB_RETURN_IF_ERROR(volume.Write(i * kStride % blocks * kBlockBytes,
                                       data_.span(i % 32 * kBlockBytes, kBlockBytes),
                                       /*fua=*/false));
    }
    return volume.Flush();
  }

  // 1 MiB requests, eight in flight, past the page cache.
  static absl::StatusOr<double> SequentialRead(const std::string& path, uint64_t bytes) {
    constexpr size_t kDepth = 8;
    constexpr uint64_t kRequestBytes = kMiB;
    EBB_ASSIGN_OR_RETURN(const auto device, storage::UringDevice::Open(path));
    const auto queue = device->MakeQueue(kDepth);
    AlignedBuffer memory(kDepth * kRequestBytes);
    std::vector<Io> transfers(bytes / kRequestBytes);
    const double begin = NowSeconds();
    size_t next = 0;
    const auto submit = [&](std::byte* data) {
      if (next == transfers.size()) return;
      transfers[next] = {.kind = Io::Kind::kRead,
                         .offset = next * kRequestBytes,
                         .data = data,
                         .bytes = kRequestBytes};
      queue->Submit(&transfers[next++]);
    };
    for (size_t i = 0; i < kDepth; ++i) submit(memory.data() + i * kRequestBytes);
    while (queue->in_flight() > 0) {
      for (const Io* done : queue->Reap(1)) submit(done->data);
    }
    for (const Io& transfer : transfers) EBB_RETURN_IF_ERROR(transfer.status);
    return static_cast<double>(transfers.size() * kRequestBytes) / (NowSeconds() - begin);
  }

  const BenchOptions options_;
  const uint64_t dirty_bytes_;
  int runs_ = 0;
  Rng rng_{5};
  AlignedBuffer data_ = RandomBytes(128 * kKiB, rng_);
};

}  // namespace

std::unique_ptr<Study> MakeRecoveryStudy(const BenchOptions& options) {
  return std::make_unique<RecoveryStudy>(options);
}

}  // namespace ebb::storage_bench
