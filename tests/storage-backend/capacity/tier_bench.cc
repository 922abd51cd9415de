// Question: what does storing a 4 KiB block cost the processor, over devices in memory and RocksDB?
//
// Prints CPU microseconds a block, of all threads (RocksDB's background included), of Store for
// sequential writes, random overwrites and random reads. Not a test: run it on a quiet machine.
//
//   ebb_tier_bench DIRECTORY [working set MiB]     DIRECTORY: for RocksDB, best on tmpfs; must be
//   new
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/cpu_time.h"
#include "base/crc32c.h"
#include "base/rng.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/capacity/capacity_tier.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr size_t kBatchBlocks = 1024;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", status.ToString());
  std::exit(1);
}

template <typename Body>
void Measure(const char* name, uint64_t blocks, const Body& body) {
  const double cpu = ProcessCpuSeconds();
  const uint64_t begin_ns = RealClock().MonotonicNs();
  body();
  const double used = ProcessCpuSeconds() - cpu;
  const double wall = static_cast<double>(RealClock().MonotonicNs() - begin_ns) / 1e9;
  fmt::print("{:28} {:6.2f} CPU us/block {:6.2f} us/block\n", name,
             used * 1e6 / static_cast<double>(blocks), wall * 1e6 / static_cast<double>(blocks));
  std::fflush(stdout);
}

int Main(const char* directory, uint64_t working_set_blocks) {
  auto metadata = OpenRocksMetadata(directory);
  Check(metadata.status());
  const uint64_t device_bytes = working_set_blocks * kBlock * 2;
  MemDevice device(device_bytes);
  auto tier = CapacityTier::Open({&device}, metadata->get());
  Check(tier.status());
  AlignedBuffer data(kBatchBlocks * kBlock);
  Rng rng(1);
  for (size_t i = 0; i < data.size(); ++i) data.data()[i] = static_cast<std::byte>(rng.Next());
  std::vector<uint32_t> crcs;
  for (size_t i = 0; i < kBatchBlocks; ++i) crcs.push_back(Crc32c(data.span(i * kBlock, kBlock)));
  std::vector<StoreBlock> batch(kBatchBlocks);
  const auto store = [&](const std::vector<uint64_t>& numbers) {
    for (size_t i = 0; i < kBatchBlocks; ++i) {
      batch[i] = {numbers[i], data.data() + i * kBlock, crcs[i]};
    }
    Check((*tier)->Store(batch, {}, nullptr, nullptr));
  };
  std::vector<uint64_t> numbers(kBatchBlocks);
  const auto fill = [&] {
    for (uint64_t first = 0; first < working_set_blocks; first += kBatchBlocks) {
      for (size_t i = 0; i < kBatchBlocks; ++i) numbers[i] = first + i;
      store(numbers);
    }
  };
  fill();  // touches the devices' memory
  Measure("sequential overwrite", working_set_blocks, fill);
  constexpr uint64_t kRandomBlocks = 1'000'000;
  Measure("random overwrite", kRandomBlocks, [&] {
    for (uint64_t done = 0; done < kRandomBlocks; done += kBatchBlocks) {
      std::set<uint64_t> chosen;
      while (chosen.size() < kBatchBlocks) chosen.insert(rng.Below(working_set_blocks));
      numbers.assign(chosen.begin(), chosen.end());
      store(numbers);
    }
  });
  Measure("(of which the set of numbers)", kRandomBlocks, [&] {
    for (uint64_t done = 0; done < kRandomBlocks; done += kBatchBlocks) {
      std::set<uint64_t> chosen;
      while (chosen.size() < kBatchBlocks) chosen.insert(rng.Below(working_set_blocks));
      numbers.assign(chosen.begin(), chosen.end());
    }
  });
  Measure("random read", kRandomBlocks, [&] {
    for (uint64_t done = 0; done < kRandomBlocks; ++done) {
      Check((*tier)->Read(rng.Below(working_set_blocks), 1, data.data(), {}));
    }
  });
  const CapacityUsage usage = (*tier)->Usage();
  fmt::print("logical {} MiB, physical {} MiB\n", usage.logical_bytes / kMiB,
             usage.physical_bytes / kMiB);
  return 0;
}

}  // namespace
}  // namespace ebb::storage

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} DIRECTORY [working set MiB]\n", argv[0]);
    return 2;
  }
  const uint64_t mib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  return ebb::storage::Main(argv[1], mib * ebb::kMiB / ebb::storage::kBlock);
}
