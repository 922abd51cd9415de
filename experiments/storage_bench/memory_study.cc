// What a cached block costs in resident memory.
#include <fstream>

#include <unistd.h>

#include "base/status.h"
#include "base/units.h"
#include "experiments/storage_bench/bench_volume.h"
#include "experiments/storage_bench/study.h"
#include "experiments/support/child_process.h"
#include "fmt/format.h"

namespace ebb::storage_bench {
namespace {

using storage::kBlockBytes;

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

struct Footprint {
  double bytes = 0;
  double blocks = 0;
};

class MemoryStudy final : public Study {
 public:
  explicit MemoryStudy(const BenchOptions& options) : options_(options) {}
  std::string name() const override { return "memory"; }

  // What does not grow with the cache (buffers of the log and of destage, the code) cancels out.
  absl::Status RunOnce(Samples& samples) override {
    EBB_ASSIGN_OR_RETURN(const Footprint small, Probe(128 * kMiB));
    EBB_ASSIGN_OR_RETURN(const Footprint large, Probe(256 * kMiB));
    samples.Add("memory.bytes_per_cached_block",
                (large.bytes - small.bytes) / (large.blocks - small.blocks));
    samples.Add("memory.mib_at_256_mib_cache", large.bytes / static_cast<double>(kMiB));
    return absl::OkStatus();
  }

 private:
  // In a new process: what an allocator kept of earlier work would hide what is needed now.
  absl::StatusOr<Footprint> Probe(uint64_t cache_bytes) {
    EBB_ASSIGN_OR_RETURN(const std::string text,
                         experiments::RunAndRead(
                             {options_.program_path, "--probe-memory", std::to_string(cache_bytes)},
                             options_.memory_dir, /*timeout_ms=*/120'000));
    Footprint footprint;
    if (std::sscanf(text.c_str(), "%lf %lf", &footprint.bytes, &footprint.blocks) != 2) {
      return absl::InternalError("the memory probe said: " + text);
    }
    return footprint;
  }

  const BenchOptions options_;
};

}  // namespace

std::unique_ptr<Study> MakeMemoryStudy(const BenchOptions& options) {
  return std::make_unique<MemoryStudy>(options);
}

absl::Status ProbeMemory(uint64_t cache_bytes) {
  Rng rng(1);
  AlignedBuffer data = RandomBytes(kBlockBytes, rng);
  BenchVolumeOptions options;
  options.volume_bytes = kGiB;  // the same for every cache
  options.cache_bytes = cache_bytes;
  options.capacity_bytes = 512 * kMiB;
  options.background_threads = false;  // nothing is destaged: every block stays
  options.setting = PlainSetting();
  const uint64_t device_bytes = options.cache_bytes + options.capacity_bytes;
  const uint64_t before = ResidentBytes();
  EBB_ASSIGN_OR_RETURN(const auto volume, OpenBenchVolume(options));
  // In drawn order, so that neighbours in the cache are not neighbours in the volume.
  const uint64_t blocks = cache_bytes / kBlockBytes * 7 / 8;
  const uint64_t stride = 1'000'003;  // no divisor of the volume's blocks
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t block = i * stride % (options.volume_bytes / kBlockBytes);
    EBB_RETURN_IF_ERROR(volume->Write(block * kBlockBytes, data.span(), /*fua=*/false));
  }
  const uint64_t dirty = volume->Metrics().dirty_bytes / kBlockBytes;
  if (dirty != blocks) {
    return absl::InternalError(fmt::format("{} of {} blocks are cached", dirty, blocks));
  }
  fmt::print("{} {}\n", ResidentBytes() - before - device_bytes, blocks);
  return absl::OkStatus();
}

}  // namespace ebb::storage_bench
