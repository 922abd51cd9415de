// What one 4 KiB request costs the processor, in process, over devices in memory, 64 in flight.
#include <array>
#include <filesystem>
#include <vector>

#include "base/cpu_time.h"
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
    queue_ = volume_->MakeQueue(slots_.size());
    data_ = RandomBytes(128 * kKiB, rng_);
    return FillBlocks(*volume_, 0, sizes_.volume_bytes / kBlockBytes, data_);
  }

  // One of the requests in flight, with its memory.
  struct Slot {
    storage::Request request;
    AlignedBuffer memory{kBlockBytes};
  };
  enum class Mix { kReads, kWrites, kSeventyThirty };

  void Prepare(Slot& slot, Mix mix, uint64_t working_set_bytes) {
    const bool read = mix == Mix::kReads || (mix == Mix::kSeventyThirty && rng_.Below(10) < 7);
    slot.request = {.kind = read ? storage::Request::Kind::kRead : storage::Request::Kind::kWrite,
                    .offset = rng_.Below(working_set_bytes / kBlockBytes) * kBlockBytes,
                    .bytes = kBlockBytes,
                    .data = read ? slot.memory.data() : data_.data() + rng_.Below(32) * kBlockBytes,
                    .context = &slot};
  }

  // Keeps 64 requests in flight until `ops` are done.
  absl::Status Run(Mix mix, uint64_t working_set_bytes, uint64_t ops) {
    std::vector<storage::Request*> done;
    std::vector<Slot*> idle;
    for (Slot& slot : slots_) idle.push_back(&slot);
    for (uint64_t submitted = 0, completed = 0; completed < ops;) {
      for (; submitted < ops && !idle.empty(); ++submitted) {
        Prepare(*idle.back(), mix, working_set_bytes);
        queue_->Submit(&idle.back()->request);
        idle.pop_back();
      }
      done.clear();
      queue_->Reap(1, done);
      for (storage::Request* request : done) {
        EBB_RETURN_IF_ERROR(request->status);
        idle.push_back(static_cast<Slot*>(request->context));
      }
      completed += done.size();
    }
    return absl::OkStatus();
  }

  absl::Status Measure(const std::string& series, Mix mix, uint64_t working_set_bytes, uint64_t ops,
                       Samples& samples) {
    const double cpu_begin = ProcessCpuSeconds();
    const double begin = NowSeconds();
    EBB_RETURN_IF_ERROR(Run(mix, working_set_bytes, ops));
    const auto count = static_cast<double>(ops);
    samples.Add(series + ".ops_per_cpu_s", count / (ProcessCpuSeconds() - cpu_begin));
    samples.Add(series + ".ops_per_s", count / (NowSeconds() - begin));
    return absl::OkStatus();
  }

  absl::Status RunHits(Samples& samples) {
    EBB_RETURN_IF_ERROR(volume_->Drain(nullptr));
    EBB_RETURN_IF_ERROR(FillBlocks(*volume_, 0, sizes_.hit_bytes / kBlockBytes, data_));
    const auto measure = [&](const std::string& series, Mix mix) {
      return Measure(series, mix, sizes_.hit_bytes, sizes_.hit_ops, samples);
    };
    EBB_RETURN_IF_ERROR(measure("engine_read_hit", Mix::kReads));
    EBB_RETURN_IF_ERROR(measure("engine_mixed_hit", Mix::kSeventyThirty));
    return measure("engine_write_hit", Mix::kWrites);
  }

  absl::Status RunDirtyFull(Samples& samples) {
    const uint64_t cache_blocks = sizes_.cache_bytes / kBlockBytes;
    EBB_RETURN_IF_ERROR(Run(Mix::kWrites, sizes_.volume_bytes, cache_blocks));
    const uint64_t writes = cache_blocks * 17 / 8;
    const VolumeMetrics before = volume_->Metrics();
    EBB_RETURN_IF_ERROR(
        Measure("engine_dirty_full_write", Mix::kWrites, sizes_.volume_bytes, writes, samples));
    const VolumeMetrics after = volume_->Metrics();
    samples.Add("engine_dirty_full_write.cache_blocks_per_user_block",
                static_cast<double>(after.cache_written_bytes - before.cache_written_bytes) /
                    static_cast<double>(after.cache_data_bytes - before.cache_data_bytes));
    samples.Add("engine_dirty_full_write.destaged_share",
                static_cast<double>(after.destaged_blocks - before.destaged_blocks) /
                    static_cast<double>(writes));
    // Three of ten are writes: as many of those again.
    return Measure("engine_dirty_full_mixed", Mix::kSeventyThirty, sizes_.volume_bytes,
                   writes * 10 / 3, samples);
  }

  const BenchOptions options_;
  const EngineSizes sizes_;
  Rng rng_{1};
  AlignedBuffer data_;
  std::array<Slot, 64> slots_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<storage::RequestQueue> queue_;
};

}  // namespace

std::unique_ptr<Study> MakeEngineStudy(const BenchOptions& options) {
  return std::make_unique<EngineStudy>(options);
}

}  // namespace ebb::storage_bench
