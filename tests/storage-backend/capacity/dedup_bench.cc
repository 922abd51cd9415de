// Question: what does each word of the knob `dedup` cost the processor a block, how much metadata
// does it leave, and which duplicates does it find? Over devices in memory, codec off.
//
// Four loads, each its own tier: new content only; half of the blocks copies of single blocks
// chosen at random; half of them in copied files of 4 to 31 blocks; the same of 32 to 1023. Prints
// CPU time of all threads (RocksDB's background included) in Store alone. Not a test: run it on a
// quiet machine.
//
//   ebb_dedup_bench DIRECTORY [MiB]     DIRECTORY: for RocksDB, best on tmpfs; must be new
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <time.h>

#include "base/aligned_buffer.h"
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

// Keys and values of what deduplication adds, before RocksDB packs them.
uint64_t TableBytes(MetadataStore& metadata) {
  uint64_t bytes = 0;
  for (const Table table : {Table::kUnits, Table::kFingerprints}) {
    Check(metadata.Scan(table, "", "", [&](std::string_view key, std::string_view value) {
      bytes += key.size() + value.size();
      return true;
    }));
  }
  return bytes;
}

enum class Load { kNew, kCopiedBlocks, kSmallFiles, kLargeFiles };

// Says which content each block has, in the order they are written: the number of the first block
// that had it.
std::vector<uint64_t> Contents(Load load, uint64_t blocks) {
  Rng rng(1);
  std::vector<uint64_t> contents;
  const uint64_t files_first = blocks / 8;  // something to copy from
  while (contents.size() < blocks) {
    const uint64_t next = contents.size();
    const bool copy = load != Load::kNew && next >= files_first && rng.Chance(0.5);
    const uint64_t run = load == Load::kLargeFiles   ? 32 + rng.Below(992)
                         : load == Load::kSmallFiles ? 4 + rng.Below(28)
                                                     : 1;
    const uint64_t from = copy ? rng.Below(next - std::min(run, next)) : next;
    for (uint64_t i = 0; i < run; ++i) contents.push_back(copy ? contents[from + i] : next + i);
  }
  contents.resize(blocks);
  return contents;
}

void Run(const std::string& directory, Load load, const char* load_name,
         const StoreOptions& options, const char* mode, uint64_t blocks) {
  auto metadata = OpenRocksMetadata(directory);
  Check(metadata.status());
  MemDevice device(blocks * kBlock * 3 / 2);
  auto tier = CapacityTier::Open({&device}, metadata->get());
  Check(tier.status());
  const std::vector<uint64_t> contents = Contents(load, blocks);
  uint64_t duplicates = 0;
  for (uint64_t i = 0; i < blocks; ++i) duplicates += contents[i] != i ? 1 : 0;

  AlignedBuffer data(kBatchBlocks * kBlock);
  Rng rng(1);
  for (size_t i = 0; i < kBlock; ++i) data.data()[i] = static_cast<std::byte>(rng.Next());
  for (size_t i = 1; i < kBatchBlocks; ++i)
    std::memcpy(data.data() + i * kBlock, data.data(), kBlock);
  std::vector<StoreBlock> batch(kBatchBlocks);
  double seconds = 0;
  uint64_t found = 0;
  // Twice: the second round overwrites everything, so that what died has to be forgotten too.
  double first_round_seconds = 0;
  uint64_t table_bytes = 0;
  for (const uint64_t round : {0, 1}) {
    for (uint64_t first = 0; first < blocks; first += kBatchBlocks) {
      for (size_t i = 0; i < kBatchBlocks; ++i) {
        std::byte* const at = data.data() + i * kBlock;
        const uint64_t content = contents[first + i] + round * blocks;
        std::memcpy(at, &content, sizeof content);
        batch[i] = {first + i, at, Crc32c({at, kBlock})};
      }
      StoreReport report;
      const double before = ProcessCpuSeconds();
      Check((*tier)->Store(batch, options, &report, nullptr));
      seconds += ProcessCpuSeconds() - before;
      if (round == 0) found += report.deduplicated_blocks;
    }
    if (round != 0) continue;
    first_round_seconds = seconds;
    table_bytes = TableBytes(**metadata);
  }
  const auto each = [&](double value) { return value / static_cast<double>(blocks); };
  fmt::print(
      "{:14} {:8} {:6.2f} us/block filling {:6.2f} us/block overwriting  found {:5.1f} %  {:5.1f} "
      "B/block in tables\n",
      load_name, mode, each(first_round_seconds * 1e6), each((seconds - first_round_seconds) * 1e6),
      duplicates == 0 ? 0.0 : 100.0 * static_cast<double>(found) / static_cast<double>(duplicates),
      each(static_cast<double>(table_bytes)));
  std::fflush(stdout);
  tier->reset();
  metadata->reset();
  std::filesystem::remove_all(directory);
}

void RunAll(const std::string& directory, uint64_t blocks) {
  for (const auto& [load, name] :
       {std::pair{Load::kNew, "new"}, std::pair{Load::kCopiedBlocks, "copied blocks"},
        std::pair{Load::kSmallFiles, "small files"}, std::pair{Load::kLargeFiles, "large files"}}) {
    Run(directory, load, name, {}, "off", blocks);
    Run(directory, load, name, {.dedup = Dedup::kSampled}, "sampled", blocks);
    Run(directory, load, name, {.dedup = Dedup::kOn}, "on", blocks);
  }
}

}  // namespace
}  // namespace ebb::storage

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} DIRECTORY [MiB]\n", argv[0]);
    return 2;
  }
  const uint64_t mib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512;
  ebb::storage::RunAll(argv[1], mib * ebb::kMiB / ebb::storage::kBlock);
  return 0;
}
