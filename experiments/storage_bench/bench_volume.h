// BenchVolume: a whole volume in this process, over devices in memory, shaped ones or files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/rng.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage_bench {

struct BenchVolumeOptions {
  uint64_t volume_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t capacity_bytes = 0;  // of each
  int capacity_devices = 1;
  std::string cache_path;      // a file of cache_bytes; empty: in memory
  std::string capacity_dir;    // of sparse files, made when missing; empty: in memory
  std::string cache_shape;     // model of storage-backend/device/service_model.h; empty: none
  std::string capacity_shape;  // likewise
  std::string metadata_dir;    // of RocksDB; empty: in memory
  bool background_threads = true;
  storage::Setting setting;
};

// `setting` with the codec and dedup off, no DRAM read cache, no clean copies and the watermark as
// high as it goes.
storage::Setting PlainSetting();

absl::StatusOr<std::unique_ptr<storage::Volume>> OpenBenchVolume(const BenchVolumeOptions& options);

// A device in memory, shaped as `shape` unless that is empty.
absl::StatusOr<std::unique_ptr<storage::Device>> MakeBenchDevice(uint64_t bytes,
                                                                 const std::string& shape,
                                                                 uint64_t seed);

// `bytes` of what no codec shrinks.
AlignedBuffer RandomBytes(size_t bytes, Rng& rng);
// `bytes` of text-like records that zstd-1 shrinks to about a third.
AlignedBuffer TextBytes(size_t bytes, Rng& rng);

// Writes blocks [first, first + count) in large requests with what `data` holds, again and again.
absl::Status FillBlocks(storage::Volume& volume, uint64_t first, uint64_t count,
                        AlignedBuffer& data);

double NowSeconds();

// Keeps this thread, and every thread that it starts meanwhile, on one core.
class OneCore {
 public:
  OneCore();
  ~OneCore();
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  struct Mask;
  std::unique_ptr<Mask> before_;
};

}  // namespace ebb::storage_bench
