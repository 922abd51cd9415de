// What one 4 KiB request costs the processor, in process, over devices in memory.
#include <filesystem>

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

struct EngineSizes {
  uint64_t cache_bytes = 256 * kMiB;
  uint64_t volume_bytes = kGiB;    // four times the cache
  uint64_t hit_bytes = 64 * kMiB;  // what the hits go to
  uint64_t hit_ops = 600'000;
};

EngineSizes SizesFor(bool quick) {
  if (!quick) return {};
  return {.cache_bytes = 64 * kMiB,
          .volume_bytes = 256 * kMiB,
          .hit_bytes = 16 * kMiB,
          .hit_ops = 50'000};
}

class EngineStudy final : public Study {
 public:
  explicit EngineStudy(const BenchOptions& options)
      : options_(options), sizes_(SizesFor(options.quick)) {}

  std::string name() const override { return "engine"; }

  absl::Status RunOnce(Samples& samples) override {
    const OneCore pinned;
    if (volume_ == nullptr) EBB_RETURN_IF_ERROR(Open());
    EBB_RETURN_IF_ERROR(RunHits(samples));
    EBB_RETURN_IF_ERROR(RunDirtyFull(samples));
    // Nothing is left to destage while others are measured.
    return volume_->Drain(nullptr);
  }

 private:
  absl::Status Open() {
    BenchVolumeOptions volume;
    volume.volume_bytes = sizes_.volume_bytes;
    volume.cache_bytes = sizes_.cache_bytes;
    // Room for everything once, for what waits for compaction, and for what is promised to writes.
    volume.capacity_bytes = sizes_.volume_bytes * 3 / 4 + sizes_.cache_bytes;
    volume.capacity_devices = 2;
    volume.metadata_dir = options_.memory_dir + "/engine-metadata";
    volume.setting = PlainSetting();
    EBB_ASSIGN_OR_RETURN(volume_, OpenBenchVolume(volume));
    data_ = RandomBytes(128 * kKiB, rng_);
    return FillBlocks(*volume_, 0, sizes_.volume_bytes / kBlockBytes, data_);
  }

  absl::Status WriteOne(uint64_t working_set_bytes) {
    return volume_->Write(rng_.Below(working_set_bytes / kBlockBytes) * kBlockBytes,
                          data_.span(rng_.Below(32) * kBlockBytes, kBlockBytes), /*fua=*/false);
  }
  absl::Status ReadOne(uint64_t working_set_bytes) {
    return volume_->Read(rng_.Below(working_set_bytes / kBlockBytes) * kBlockBytes, block_.span());
  }
  absl::Status MixedOne(uint64_t working_set_bytes) {
    return rng_.Below(10) < 7 ? ReadOne(working_set_bytes) : WriteOne(working_set_bytes);
  }

  using Operation = absl::Status (EngineStudy::*)(uint64_t);

  // Does `operation` `ops` times.
  absl::Status Measure(const std::string& series, Operation operation, uint64_t working_set_bytes,
                       uint64_t ops, Samples& samples) {
    const double cpu_begin = CpuSeconds();
    const double begin = NowSeconds();
    for (uint64_t i = 0; i < ops; ++i) EBB_RETURN_IF_ERROR((this->*operation)(working_set_bytes));
    const auto count = static_cast<double>(ops);
    samples.Add(series + ".ops_per_cpu_s", count / (CpuSeconds() - cpu_begin));
    samples.Add(series + ".ops_per_s", count / (NowSeconds() - begin));
    return absl::OkStatus();
  }

  absl::Status RunHits(Samples& samples) {
    EBB_RETURN_IF_ERROR(volume_->Drain(nullptr));
    EBB_RETURN_IF_ERROR(FillBlocks(*volume_, 0, sizes_.hit_bytes / kBlockBytes, data_));
    const auto measure = [&](const std::string& series, Operation operation) {
      return Measure(series, operation, sizes_.hit_bytes, sizes_.hit_ops, samples);
    };
    EBB_RETURN_IF_ERROR(measure("engine_write_hit", &EngineStudy::WriteOne));
    EBB_RETURN_IF_ERROR(measure("engine_read_hit", &EngineStudy::ReadOne));
    return measure("engine_mixed_hit", &EngineStudy::MixedOne);
  }

  absl::Status RunDirtyFull(Samples& samples) {
    const uint64_t cache_blocks = sizes_.cache_bytes / kBlockBytes;
    for (uint64_t i = 0; i < cache_blocks; ++i) {
      EBB_RETURN_IF_ERROR(WriteOne(sizes_.volume_bytes));
    }
    const uint64_t writes = cache_blocks * 17 / 8;
    const VolumeMetrics before = volume_->Metrics();
    EBB_RETURN_IF_ERROR(Measure("engine_dirty_full_write", &EngineStudy::WriteOne,
                                sizes_.volume_bytes, writes, samples));
    const VolumeMetrics after = volume_->Metrics();
    samples.Add("engine_dirty_full_write.cache_blocks_per_user_block",
                static_cast<double>(after.cache_written_bytes - before.cache_written_bytes) /
                    static_cast<double>(after.cache_data_bytes - before.cache_data_bytes));
    samples.Add("engine_dirty_full_write.destaged_share",
                static_cast<double>(after.destaged_blocks - before.destaged_blocks) /
                    static_cast<double>(writes));
    // Three of ten are writes: as many of those again.
    return Measure("engine_dirty_full_mixed", &EngineStudy::MixedOne, sizes_.volume_bytes,
                   writes * 10 / 3, samples);
  }

  const BenchOptions options_;
  const EngineSizes sizes_;
  Rng rng_{1};
  AlignedBuffer data_;
  AlignedBuffer block_{kBlockBytes};
  std::unique_ptr<Volume> volume_;
};

}  // namespace

std::unique_ptr<Study> MakeEngineStudy(const BenchOptions& options) {
  return std::make_unique<EngineStudy>(options);
}

}  // namespace ebb::storage_bench
