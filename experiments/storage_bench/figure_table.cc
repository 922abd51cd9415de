// The bars of the storage bench, as data.
#include "experiments/storage_bench/figures.h"

namespace ebb::storage_bench {
namespace {

constexpr Direction kAtLeast = Direction::kAtLeast;
constexpr Direction kAtMost = Direction::kAtMost;

std::vector<FigureSpec> EngineFigures() {
  const std::string ops = "operations per CPU-second";
  const std::string hit =
      "in process, devices in memory, one core, 4 KiB, the engine's queue at depth 64, 64 MiB of a "
      "256 MiB cache, CPU of all threads: ";
  const std::string dirty =
      "the same, 1 GiB over a 256 MiB cache, all of it written, codec and dedup off, more than two "
      "caches' worth of writes after one to settle: ";
  return {
      {"engine_write_hit_ops_per_cpu_s",
       ops,
       kAtLeast,
       700e3,
       "engine_write_hit.ops_per_cpu_s",
       {},
       hit + "random writes"},
      {"engine_read_hit_ops_per_cpu_s",
       ops,
       kAtLeast,
       1e6,
       "engine_read_hit.ops_per_cpu_s",
       {},
       hit + "random reads from the cache device, DRAM read cache off"},
      {"engine_mixed_hit_ops_per_cpu_s",
       ops,
       kAtLeast,
       750e3,
       "engine_mixed_hit.ops_per_cpu_s",
       {},
       hit + "70 % reads, 30 % writes"},
      {"engine_dirty_full_write_ops_per_cpu_s",
       ops,
       kAtLeast,
       250e3,
       "engine_dirty_full_write.ops_per_cpu_s",
       {},
       dirty + "random writes"},
      {"engine_dirty_full_mixed_ops_per_cpu_s",
       ops,
       kAtLeast,
       250e3,
       "engine_dirty_full_mixed.ops_per_cpu_s",
       {},
       dirty + "70 % reads, 30 % writes"},
      {"cache_blocks_written_per_user_block",
       "blocks",
       kAtMost,
       1.1,
       "engine_dirty_full_write.cache_blocks_per_user_block",
       {},
       "bytes written to the cache device over bytes of user data, of the dirty-full writes"},
      {"ram_bytes_per_cached_block",
       "bytes",
       kAtMost,
       32,
       "memory.bytes_per_cached_block",
       {},
       "resident memory of a process with a full 256 MiB cache minus that of one with a full 128 "
       "MiB cache, over the difference of cached blocks; index, block infos and bits included"},
  };
}

FigureSpec NbdTmpfs(const std::string& load, const std::string& what) {
  const std::string name = "nbd_" + load;
  return {name + "_vs_file_tmpfs",
          "ratio",
          kAtLeast,
          0.9,
          name + ".ebb.ops_per_s",
          {name + ".file_t1.ops_per_s", name + ".file_t16.ops_per_s"},
          "fio nbd client, " + what +
              ", one connection, 256 MiB of a 2 GiB cache, files in memory; against nbdkit file "
              "with 1 and 16 "
              "threads"};
}

std::vector<FigureSpec> NbdFigures() {
  const std::string burst =
      "fio, 4 KiB random writes at depth 16, a burst of 256 MiB anywhere in 4 GiB, files on the "
      "real disk, laid out beforehand: through NBD into a 1 GiB cache with nothing dirty, against ";
  return {
      NbdTmpfs("randread", "4 KiB random reads at depth 16"),
      NbdTmpfs("randwrite", "4 KiB random writes at depth 16"),
      NbdTmpfs("seqread", "128 KiB sequential reads at depth 16"),
      NbdTmpfs("seqwrite", "128 KiB sequential writes at depth 16"),
      {"nbd_disk_burst_vs_raw",
       "ratio",
       kAtLeast,
       0.8,
       "nbd_disk_burst.ebb.ops_per_s",
       {"nbd_disk_burst.raw.ops_per_s"},
       burst + "O_DIRECT io_uring"},
      {"nbd_disk_burst_vs_cache_filter",
       "ratio",
       kAtLeast,
       10,
       "nbd_disk_burst.ebb.ops_per_s",
       {"nbd_disk_burst.cache_filter.ops_per_s"},
       burst + "nbdkit --filter=cache file cache=writeback"},
  };
}

std::vector<FigureSpec> FlowFigures() {
  const std::string throttle =
      "16 threads write 4 KiB blocks, each once, in drawn order, three caches' worth at full "
      "speed; cache in memory shaped as nvme, two capacity devices shaped as disk-7200; from the "
      "first held write on: ";
  return {
      {"throttle_lowest_second_vs_drain",
       "ratio",
       kAtLeast,
       0.7,
       "throttle.lowest_second_vs_drain",
       {},
       throttle + "lowest second of writes over the mean destage rate"},
      {"throttle_p999_over_p50",
       "ratio",
       kAtMost,
       20,
       "throttle.p999_over_p50",
       {},
       throttle + "p99.9 over p50 of the write latency"},
      {"destage_vs_device",
       "ratio",
       kAtLeast,
       0.8,
       "destage.bytes_per_s",
       {"destage.device_bytes_per_s"},
       "drain of a cache full of random dirty blocks to two devices shaped as disk-7200, codec "
       "and dedup off, over the devices' own sequential writes at once"},
      {"destage_zstd1_vs_codec",
       "ratio",
       kAtLeast,
       0.8,
       "destage_zstd1.bytes_per_s",
       {"destage_zstd1.codec_bytes_per_s"},
       "drain with zstd1 in units of 32 KiB to devices in memory, over the codec alone on one "
       "core times destage_parallelism (1)"},
      {"recovery_vs_sequential_read",
       "ratio",
       kAtLeast,
       0.7,
       "recovery.bytes_per_s",
       {"recovery.device_bytes_per_s"},
       "opening a node whose cache on the real disk holds 512 MiB of dirty blocks after a kill, "
       "in bytes of log a second, over reading as much of the same file in order"},
  };
}

std::vector<FigureSpec> MakeTable() {
  std::vector<FigureSpec> table = EngineFigures();
  for (const std::vector<FigureSpec>& part : {NbdFigures(), FlowFigures()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  return table;
}

}  // namespace

const std::vector<FigureSpec>& FigureTable() {
  static const std::vector<FigureSpec> table = MakeTable();
  return table;
}

}  // namespace ebb::storage_bench
