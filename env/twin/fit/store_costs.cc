#include "env/twin/fit/store_costs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/cpu_time.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/trace/trace_content.h"
#include "base/units.h"
#include "env/twin/fit/paced.h"
#include "fmt/format.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/reduce/compressor.h"
#include "storage-backend/reduce/fingerprint.h"

namespace ebb::twin {
namespace {

using storage::Compression;
using storage::Device;
using storage::KnobId;
using storage::Volume;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kLargeBlocks = 16;
constexpr uint64_t kLarge = kLargeBlocks * kBlock;
// Fingerprint levels of trace_content.h: shrinks to a third, not at all.
constexpr uint64_t kShrinks = 5;
constexpr uint64_t kRandom = 15;

// The middle of five runs of `work`, in ns of this thread.
template <typename Work>
double MiddleOfFive(const Work& work) {
  std::vector<double> took_ns;
  for (int i = 0; i < 5; ++i) {
    const double begin = ThreadCpuSeconds();
    work();
    took_ns.push_back((ThreadCpuSeconds() - begin) * 1e9);
  }
  std::sort(took_ns.begin(), took_ns.end());
  return took_ns[2];
}

void FillBlocks(std::span<std::byte> data, uint64_t level, uint64_t& counter) {
  for (size_t at = 0; at < data.size(); at += kBlock) {
    trace::MakeContent((++counter << 4) | level, data.subspan(at, kBlock));
  }
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(uint64_t bytes, const std::string& shape) {
  auto memory = std::make_unique<storage::MemDevice>(bytes);
  if (shape.empty()) return memory;
  EBB_ASSIGN_OR_RETURN(auto shaped,
                       storage::ShapedDevice::Make(std::move(memory), {.model = shape}));
  return shaped;
}

// Places that no two calls share, scattered over the volume.
uint64_t Place(size_t i, uint64_t bytes) {
  const uint64_t places = CostRig::kVolumeBytes / 2 / bytes;
  return (i * 7919) % places * bytes;
}

}  // namespace

storage::Setting BareSetting() {
  storage::Setting setting;
  setting.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
  setting.Set(KnobId::kDedup, static_cast<int64_t>(storage::Dedup::kOff));
  setting.Set(KnobId::kReadCacheBytes, 0);
  setting.Set(KnobId::kReadaheadBlocks, 0);
  setting.Set(KnobId::kNvmeReadShare, 0);
  setting.Set(KnobId::kDestageWatermark, 90);
  setting.Set(KnobId::kThrottleSoftness, 0);
  return setting;
}

absl::StatusOr<CostRig> CostRig::Make(const std::string& metadata_dir, const std::string& shape,
                                      const storage::Setting& setting) {
  std::error_code error;
  std::filesystem::remove_all(metadata_dir, error);
  std::filesystem::create_directories(metadata_dir, error);
  if (error) {
    return absl::UnavailableError(fmt::format("cannot make {}: {}", metadata_dir, error.message()));
  }
  EBB_ASSIGN_OR_RETURN(auto metadata, storage::OpenRocksMetadata(metadata_dir));
  EBB_ASSIGN_OR_RETURN(auto cache, MakeDevice(160 * kMiB, shape));
  std::vector<std::unique_ptr<Device>> capacity;
  EBB_ASSIGN_OR_RETURN(auto device, MakeDevice(384 * kMiB, shape));
  capacity.push_back(std::move(device));
  storage::VolumeConfig config;
  config.volume_bytes = kVolumeBytes;
  config.setting = setting;
  config.background_threads = false;
  CostRig rig;
  EBB_ASSIGN_OR_RETURN(rig.volume, Volume::Open(config, std::move(cache), std::move(capacity),
                                                std::move(metadata), RealClock()));
  return rig;
}

namespace {

// Of a read cache that no processor's cache holds, as a node's is.
absl::Status MeasureHits(Volume& volume, size_t count, CpuCosts& cpu) {
  constexpr uint64_t kHotBytes = 16 * kMiB;
  // Nobody else makes room in the log.
  const auto destage = [&volume]() -> absl::Status {
    EBB_RETURN_IF_ERROR(volume.Flush());
    while (volume.Metrics().dirty_bytes > 0) {
      EBB_RETURN_IF_ERROR(volume.RunBackgroundStep().status());
    }
    return absl::OkStatus();
  };
  EBB_RETURN_IF_ERROR(destage());
  AlignedBuffer data(kLarge);
  uint64_t counter = 0;
  for (uint64_t at = 0; at < CostRig::kVolumeBytes / 2; at += kLarge) {
    FillBlocks(data.span(), kRandom, counter);
    EBB_RETURN_IF_ERROR(volume.Write(at, data.span(), /*fua=*/false));
  }
  EBB_RETURN_IF_ERROR(destage());
  // The read cache grows in background steps.
  for (int i = 0; i < 16; ++i) EBB_RETURN_IF_ERROR(volume.RunBackgroundStep().status());
  const auto read = [&](uint64_t bytes) -> absl::StatusOr<double> {
    const size_t hot = kHotBytes / bytes;
    // What is read twice is in the cache.
    for (size_t i = 0; i < 2 * hot; ++i) {
      EBB_RETURN_IF_ERROR(volume.Read(Place(i % hot, bytes), data.span(0, bytes)));
    }
    return PacedMedianNs(count, [&, bytes](size_t i) {
      return volume.Read(Place(i % hot, bytes), data.span(0, bytes));
    });
  };
  EBB_ASSIGN_OR_RETURN(const double small_ns, read(kBlock));
  EBB_ASSIGN_OR_RETURN(const double large_ns, read(kLarge));
  cpu.read_block = std::max(0.0, (large_ns - small_ns) / (kLargeBlocks - 1));
  cpu.read_request = std::max(0.0, small_ns - cpu.read_block);
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureRequests(const NodeCostOptions& options, size_t count, CpuCosts& cpu) {
  storage::Setting setting = BareSetting();
  setting.Set(KnobId::kReadCacheBytes, static_cast<int64_t>(32 * kMiB));
  setting.Set(KnobId::kReadAdmission, static_cast<int64_t>(storage::ReadAdmission::kAlways));
  EBB_ASSIGN_OR_RETURN(CostRig rig, CostRig::Make(options.metadata_dir, "", setting));
  Volume& volume = *rig.volume;
  AlignedBuffer data(kLarge);
  uint64_t counter = 0;
  FillBlocks(data.span(), kRandom, counter);
  const auto write = [&](uint64_t bytes) {
    return PacedTimes::Measure(count, [&, bytes](size_t i) {
      return volume.Write(Place(i, bytes), data.span(0, bytes), /*fua=*/false);
    });
  };
  EBB_ASSIGN_OR_RETURN(const PacedTimes small, write(kBlock));
  EBB_ASSIGN_OR_RETURN(const PacedTimes large, write(kLarge));
  // Every fourth large write fills a group: see MeasureGroupClose.
  const double write_small_ns = small.MedianNs();
  const double write_large_ns = large.QuantileNs(0.375);
  cpu.write_block = std::max(0.0, (write_large_ns - write_small_ns) / (kLargeBlocks - 1));
  cpu.write_request = std::max(0.0, write_small_ns - cpu.write_block);
  EBB_ASSIGN_OR_RETURN(
      cpu.flush_request, PacedMedianNs(count / 4, [&](size_t i) {
        EBB_RETURN_IF_ERROR(volume.Write(Place(i, kBlock), data.span(0, kBlock), false));
        return volume.Flush();
      }));
  cpu.flush_request = std::max(0.0, cpu.flush_request - write_small_ns);
  return MeasureHits(volume, count, cpu);
}

// A group has 63 blocks, so every fourth write of sixteen fills one and hands it to the device:
// what such a write takes beyond the others. On a device that holds transfers back, as devices do.
absl::Status MeasureGroupClose(const NodeCostOptions& options, size_t count, CpuCosts& cpu) {
  EBB_ASSIGN_OR_RETURN(CostRig rig, CostRig::Make(options.metadata_dir, "nvme", BareSetting()));
  AlignedBuffer data(kLarge);
  uint64_t counter = 0;
  FillBlocks(data.span(), kRandom, counter);
  EBB_ASSIGN_OR_RETURN(const PacedTimes writes, PacedTimes::Measure(count, [&](size_t i) {
                         return rig.volume->Write(Place(i, kLarge), data.span(), /*fua=*/false);
                       }));
  cpu.group_close = std::max(0.0, writes.QuantileNs(0.875) - writes.QuantileNs(0.375));
  return absl::OkStatus();
}

absl::Status MeasureDeviceWaits(const NodeCostOptions& options, size_t count, CpuCosts& cpu) {
  constexpr const char* kShape = "sata-ssd";
  count /= 2;
  EBB_ASSIGN_OR_RETURN(auto device, MakeDevice(160 * kMiB, kShape));
  AlignedBuffer data(kBlock);
  EBB_ASSIGN_OR_RETURN(const double device_ns, PacedMedianNs(count, [&](size_t i) {
                         return device->Read(Place(i, kBlock), data.span());
                       }));
  EBB_ASSIGN_OR_RETURN(CostRig rig, CostRig::Make(options.metadata_dir, kShape, BareSetting()));
  Volume& volume = *rig.volume;
  AlignedBuffer large(kLarge);
  uint64_t counter = 0;
  for (uint64_t at = 0; at < CostRig::kVolumeBytes / 2; at += kLarge) {
    FillBlocks(large.span(), kRandom, counter);
    EBB_RETURN_IF_ERROR(volume.Write(at, large.span(), false));
  }
  EBB_RETURN_IF_ERROR(volume.Flush());
  // Programs that are still under way would be the device's time, not the node's.
  RealClock().SleepUntilNs(RealClock().MonotonicNs() + 100 * kNsPerMs);
  EBB_ASSIGN_OR_RETURN(const double read_ns, PacedMedianNs(count, [&](size_t i) {
                         return volume.Read(Place(i, kBlock), data.span());
                       }));
  cpu.device_wait = std::max(0.0, read_ns - device_ns - cpu.read_request - cpu.read_block);
  return absl::OkStatus();
}

absl::Status MeasureReduction(size_t count, CpuCosts& cpu) {
  constexpr size_t kUnit = size_t{32} * 1024;
  // Other content in each, more than a processor's cache or its branch prediction remembers: the
  // same unit again and again took zstd a third less.
  constexpr size_t kUnits = 192;
  constexpr double kBytes = kUnits * kUnit;
  AlignedBuffer raw(kUnits * kUnit), out(kUnits * kUnit), back(kUnit);
  storage::Compressor compressor;
  uint64_t counter = 0;
  for (size_t codec = 1; codec < 4; ++codec) {
    const auto kind = static_cast<Compression>(codec);
    std::array<size_t, kUnits> stored{};
    const auto compress = [&] {
      for (size_t i = 0; i < kUnits; ++i) {
        stored[i] = compressor.Compress(kind, raw.span(i * kUnit, kUnit),
                                        out.span(i * kUnit, storage::MaxStoredBytes(kUnit)));
      }
    };
    FillBlocks(raw.span(), kRandom, counter);
    cpu.compress_byte_random[codec] = MiddleOfFive(compress) / kBytes;
    FillBlocks(raw.span(), kShrinks, counter);
    cpu.compress_byte[codec] = MiddleOfFive(compress) / kBytes;
    if (std::find(stored.begin(), stored.end(), 0U) != stored.end()) {
      return absl::InternalError("data that shrink did not");
    }
    absl::Status status;
    cpu.decompress_byte[codec] =
        MiddleOfFive([&] {
          for (size_t i = 0; i < kUnits; ++i) {
            status.Update(storage::Decompress(kind, out.span(i * kUnit, stored[i]), back.span()));
          }
        }) /
        kBytes;
    EBB_RETURN_IF_ERROR(status);
  }
  storage::Fingerprinter fingerprinter;
  const size_t prints = 4 * count;
  std::byte mixed{};
  cpu.fingerprint_block = MiddleOfFive([&] {
                            for (size_t i = 0; i < prints; ++i) {
                              mixed ^= fingerprinter.Of(raw.span(i % 8 * kBlock, kBlock)).front();
                              raw.data()[i % kUnit] ^= mixed;
                            }
                          }) /
                          static_cast<double>(prints);
  return absl::OkStatus();
}

absl::Status MeasureMetadata(const NodeCostOptions& options, size_t count, NodeCosts& costs) {
  std::error_code error;
  std::filesystem::remove_all(options.metadata_dir, error);
  std::filesystem::create_directories(options.metadata_dir, error);
  EBB_ASSIGN_OR_RETURN(auto store, storage::OpenRocksMetadata(options.metadata_dir));
  constexpr size_t kKeys = 4096;
  Rng rng(5);
  const auto value = [&rng](size_t bytes) {
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(rng.Next());
    return text;
  };
  storage::MetadataBatch fill;
  for (size_t i = 0; i < kKeys; ++i) {
    fill.PutMoved(storage::Table::kMap, fmt::format("{:08}", i), value(1'600));
    fill.PutMoved(storage::Table::kUnits, fmt::format("{:08}", i), value(290));
  }
  EBB_RETURN_IF_ERROR(store->Commit(fill, /*durable=*/true));
  const auto get = [&](storage::Table table) {
    return PacedMedianNs(count / 2, [&, table](size_t i) {
      return store->Get(table, fmt::format("{:08}", i * 2654435761U % kKeys)).status();
    });
  };
  EBB_ASSIGN_OR_RETURN(costs.cpu.map_page_miss, get(storage::Table::kMap));
  EBB_ASSIGN_OR_RETURN(costs.cpu.unit_miss, get(storage::Table::kUnits));
  const auto commit = [&](size_t bytes) {
    return PacedMedianNs(count / 8, [&, bytes](size_t i) {
      storage::MetadataBatch batch;
      // A commit has many records, not one large one.
      for (size_t at = 0; at < bytes; at += 256) {
        batch.PutMoved(storage::Table::kUnits, fmt::format("{:04}{:08}", at, i % 64), value(256));
      }
      return store->Commit(batch, /*durable=*/true);
    });
  };
  constexpr size_t kSmall = 256, kBig = 64 << 10;
  EBB_ASSIGN_OR_RETURN(const double small_ns, commit(kSmall));
  EBB_ASSIGN_OR_RETURN(const double big_ns, commit(kBig));
  costs.metadata.commit_byte_ns = std::max(0.0, (big_ns - small_ns) / (kBig - kSmall));
  costs.metadata.commit_ns = std::max(0.0, small_ns - kSmall * costs.metadata.commit_byte_ns);
  return absl::OkStatus();
}

namespace {

struct DestageRun {
  double cpu_ns = 0;
  double blocks = 0;
};

// The second time that the same places are destaged: a node's blocks mostly have a place already.
absl::StatusOr<DestageRun> Destage(const NodeCostOptions& options, storage::Setting setting) {
  setting.Set(KnobId::kDestageBatchBytes, static_cast<int64_t>(8 * kMiB));
  EBB_ASSIGN_OR_RETURN(CostRig rig, CostRig::Make(options.metadata_dir, "", setting));
  Volume& volume = *rig.volume;
  constexpr uint64_t kBytes = 32 * kMiB;
  AlignedBuffer data(kBlock);
  uint64_t counter = 0;
  DestageRun run;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kBytes / kBlock; ++i) {
      FillBlocks(data.span(), kShrinks, counter);
      EBB_RETURN_IF_ERROR(volume.Write(Place(i, kBlock), data.span(), false));
    }
    EBB_RETURN_IF_ERROR(volume.Flush());
    const storage::VolumeMetrics before = volume.Metrics();
    const double begin = ProcessCpuSeconds();
    while (volume.Metrics().dirty_bytes > 0) {
      EBB_RETURN_IF_ERROR(volume.RunBackgroundStep().status());
    }
    if (round == 0) continue;
    const storage::VolumeMetrics after = volume.Metrics();
    run.cpu_ns += (ProcessCpuSeconds() - begin) * 1e9;
    run.blocks += static_cast<double>(after.destaged_blocks - before.destaged_blocks);
  }
  if (run.blocks == 0) return absl::InternalError("nothing was destaged");
  return run;
}

}  // namespace

absl::Status MeasureDestage(const NodeCostOptions& options, NodeCosts& costs) {
  CpuCosts& cpu = costs.cpu;
  const storage::Setting bare = BareSetting();
  storage::Setting packed = bare;
  constexpr int64_t kUnit = 32 << 10;
  packed.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kLz4));
  packed.Set(KnobId::kCompressionUnitBytes, kUnit);
  storage::Setting shared = bare;
  shared.Set(KnobId::kDedup, static_cast<int64_t>(storage::Dedup::kOn));
  shared.Set(KnobId::kCompressionUnitBytes, kUnit);
  EBB_ASSIGN_OR_RETURN(const DestageRun direct, Destage(options, bare));
  EBB_ASSIGN_OR_RETURN(const DestageRun units, Destage(options, packed));
  EBB_ASSIGN_OR_RETURN(const DestageRun prints, Destage(options, shared));
  // A batch has two thousand blocks: what its commit takes of the processor is lost among them.
  cpu.destage_block = direct.cpu_ns / direct.blocks;
  const double codec_ns = cpu.compress_byte[static_cast<size_t>(Compression::kLz4)] * kBlock;
  // A block's unit is made, and the one it was in is changed: about twice a unit for each of eight.
  const double unit_blocks = static_cast<double>(kUnit) / kBlock;
  const double records = 2 * units.blocks / unit_blocks;
  cpu.unit_record =
      std::max(0.0, (units.cpu_ns - units.blocks * (cpu.destage_block + codec_ns)) / records);
  const double known_ns = prints.blocks * (cpu.destage_block + cpu.fingerprint_block) +
                          2 * prints.blocks / unit_blocks * cpu.unit_record;
  // Looked up, and inserted or removed at half the price: see CapacityModel::CommitBatch.
  cpu.fingerprint_lookup = std::max(0.0, (prints.cpu_ns - known_ns) / prints.blocks / 2);
  return absl::OkStatus();
}

}  // namespace ebb::twin
