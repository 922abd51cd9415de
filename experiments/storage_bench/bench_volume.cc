#include "experiments/storage_bench/bench_volume.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include <sched.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/device/uring_device.h"
#include "storage-backend/metadata/mem_metadata.h"

namespace ebb::storage_bench {

using storage::Device;
using storage::kBlockBytes;
using storage::KnobId;
using storage::Volume;

storage::Setting PlainSetting() {
  storage::Setting setting;
  setting.Set(KnobId::kCompression, static_cast<int64_t>(storage::Compression::kOff));
  setting.Set(KnobId::kDedup, static_cast<int64_t>(storage::Dedup::kOff));
  setting.Set(KnobId::kReadCacheBytes, 0);
  setting.Set(KnobId::kNvmeReadShare, 0);
  setting.Set(KnobId::kDestageWatermark, 90);
  return setting;
}

absl::StatusOr<std::unique_ptr<Device>> MakeBenchDevice(uint64_t bytes, const std::string& shape,
                                                        uint64_t seed) {
  auto device = std::make_unique<storage::MemDevice>(bytes);
  if (shape.empty()) return device;
  EBB_ASSIGN_OR_RETURN(
      auto shaped, storage::ShapedDevice::Make(std::move(device), {.model = shape, .seed = seed}));
  return shaped;
}

namespace {

absl::StatusOr<std::unique_ptr<Device>> OpenCapacity(const BenchVolumeOptions& options, int i) {
  if (options.capacity_dir.empty()) {
    return MakeBenchDevice(options.capacity_bytes, options.capacity_shape,
                           static_cast<uint64_t>(i) + 2);
  }
  const std::string path = fmt::format("{}/capacity-{}.img", options.capacity_dir, i + 1);
  if (!std::filesystem::exists(path)) {
    EBB_RETURN_IF_ERROR(storage::CreateDeviceFile(path, options.capacity_bytes));
  }
  EBB_ASSIGN_OR_RETURN(auto device, storage::UringDevice::Open(path));
  return device;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Volume>> OpenBenchVolume(const BenchVolumeOptions& options) {
  std::unique_ptr<Device> cache;
  if (options.cache_path.empty()) {
    EBB_ASSIGN_OR_RETURN(cache, MakeBenchDevice(options.cache_bytes, options.cache_shape, 1));
  } else {
    EBB_ASSIGN_OR_RETURN(cache, storage::UringDevice::Open(options.cache_path));
  }
  std::vector<std::unique_ptr<Device>> capacity;
  for (int i = 0; i < options.capacity_devices; ++i) {
    EBB_ASSIGN_OR_RETURN(auto device, OpenCapacity(options, i));
    capacity.push_back(std::move(device));
  }
  std::unique_ptr<storage::MetadataStore> metadata = std::make_unique<storage::MemMetadata>();
  if (!options.metadata_dir.empty()) {
    std::filesystem::create_directories(options.metadata_dir);
    EBB_ASSIGN_OR_RETURN(metadata, storage::OpenRocksMetadata(options.metadata_dir));
  }
  storage::VolumeConfig config;
  config.volume_bytes = options.volume_bytes;
  config.background_threads = options.background_threads;
  config.setting = options.setting;
  return Volume::Open(config, std::move(cache), std::move(capacity), std::move(metadata),
                      RealClock());
}

AlignedBuffer RandomBytes(size_t bytes, Rng& rng) {
  AlignedBuffer data(bytes);
  for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
    const uint64_t word = rng.Next();
    std::memcpy(data.data() + i, &word, sizeof word);
  }
  return data;
}

AlignedBuffer TextBytes(size_t bytes, Rng& rng) {
  // Words of 2 to 9 letters; a word's rank falls off as in a language.
  constexpr size_t kWords = 2048;
  std::array<std::string, kWords> words;
  for (std::string& word : words) {
    word.resize(2 + rng.Below(8));
    for (char& letter : word) letter = static_cast<char>('a' + rng.Below(26));
    word += ' ';
  }
  AlignedBuffer data(bytes);
  size_t at = 0;
  while (at < bytes) {
    const double u = rng.Uniform();
    const std::string& word = words[static_cast<size_t>(u * u * u * kWords)];
    const size_t part = std::min(word.size(), bytes - at);
    std::memcpy(data.data() + at, word.data(), part);
    at += part;
  }
  return data;
}

absl::Status FillBlocks(Volume& volume, uint64_t first, uint64_t count, AlignedBuffer& data) {
  const uint64_t step = std::max<uint64_t>(1, data.size() / kBlockBytes);
  for (uint64_t done = 0; done < count; done += step) {
    const uint64_t part = std::min(step, count - done);
    EBB_RETURN_IF_ERROR(volume.Write((first + done) * kBlockBytes, data.span(0, part * kBlockBytes),
                                     /*fua=*/false));
  }
  return absl::OkStatus();
}

double NowSeconds() { return static_cast<double>(RealClock().MonotonicNs()) / 1e9; }

struct OneCore::Mask {
  cpu_set_t set;
};

OneCore::OneCore() : before_(std::make_unique<Mask>()) {
  sched_getaffinity(0, sizeof before_->set, &before_->set);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &before_->set)) continue;
    // The last one: the first takes the machine's interrupts.
    CPU_ZERO(&one);
    CPU_SET(core, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
}

OneCore::~OneCore() { sched_setaffinity(0, sizeof before_->set, &before_->set); }

}  // namespace ebb::storage_bench
