// Question: what does one 4 KiB request cost the processor, in process, over devices in memory?
//
// Prints operations a CPU-second of all threads for write hits, read hits from the log, from memory
// and 70/30. Not a test: run it on a quiet machine.
#include <cstdio>
#include <cstring>

#include <sys/resource.h>

#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename Body>
void Measure(const char* name, uint64_t ops, const Body& body) {
  const double cpu = CpuSeconds();
  const uint64_t begin_ns = RealClock().MonotonicNs();
  for (uint64_t i = 0; i < ops; ++i) body(i);
  const double used = CpuSeconds() - cpu;
  const double wall = static_cast<double>(RealClock().MonotonicNs() - begin_ns) / 1e9;
  fmt::print("{:28} {:8.0f} k ops/CPU-s {:8.0f} k ops/s\n", name,
             static_cast<double>(ops) / used / 1e3, static_cast<double>(ops) / wall / 1e3);
  std::fflush(stdout);
}

int Main() {
  constexpr uint64_t kWorkingSetBlocks = 64 * kMiB / kBlockBytes;
  constexpr uint64_t kOps = 1'000'000;
  TestNode node({.volume_bytes = kGiB,
                 .cache_bytes = 512 * kMiB,
                 .segment_bytes = 0,
                 .capacity_bytes = kGiB,
                 .fake_tier = true,
                 .background_threads = true},
                RealClock());
  if (const absl::Status status = node.Open(); !status.ok()) {
    fmt::print(stderr, "{}\n", status.ToString());
    return 1;
  }
  Volume& volume = node.volume();
  Rng rng(1);
  AlignedBuffer block = MakeBlock(1, 1);
  const auto offset = [&] { return rng.Below(kWorkingSetBlocks) * kBlockBytes; };
  const auto check = [](const absl::Status& status) {
    if (!status.ok()) {
      fmt::print(stderr, "{}\n", status.ToString());
      std::exit(1);
    }
  };
  Setting setting;
  setting.Set(KnobId::kDestageWatermark, 90);
  setting.Set(KnobId::kNvmeReadShare, 0);
  setting.Set(KnobId::kReadCacheBytes, 0);
  check(volume.Apply(setting));
  for (uint64_t i = 0; i < kWorkingSetBlocks; ++i) {
    check(volume.Write(i * kBlockBytes, block.span(), false));
  }
  Measure("write hit", kOps, [&](uint64_t) { check(volume.Write(offset(), block.span(), false)); });
  Measure("read hit, cache device", kOps,
          [&](uint64_t) { check(volume.Read(offset(), block.span())); });
  Measure("70/30 hit, cache device", kOps, [&](uint64_t i) {
    if (i % 10 < 7) {
      check(volume.Read(offset(), block.span()));
    } else {
      check(volume.Write(offset(), block.span(), false));
    }
  });
  setting.Set(KnobId::kReadCacheBytes, 128 * kMiB);
  check(volume.Apply(setting));
  for (uint64_t i = 0; i < kWorkingSetBlocks; ++i) {
    check(volume.Read(i * kBlockBytes, block.span()));
  }
  Measure("read hit, memory", kOps, [&](uint64_t) { check(volume.Read(offset(), block.span())); });
  const VolumeMetrics metrics = volume.Metrics();
  fmt::print("cache blocks written per user block {:.3f}, destaged {} k blocks\n",
             static_cast<double>(metrics.cache_written_bytes) /
                 static_cast<double>(metrics.cache_data_bytes),
             metrics.destaged_blocks / 1000);
  return 0;
}

}  // namespace
}  // namespace ebb::storage

int main() { return ebb::storage::Main(); }
