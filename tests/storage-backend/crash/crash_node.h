// A whole node on simulated disks whose power can be cut, all at the same moment, metadata
// included.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "storage-backend/device/faulty_device.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "storage-backend/volume/volume_impl.h"

namespace ebb::storage {

struct CrashNodeOptions {
  uint64_t seed = 1;
  uint64_t volume_blocks = 128;
  uint32_t segment_blocks = 8;
  uint32_t segment_count = 12;
  uint64_t capacity_bytes = 3 << 20;
  size_t capacity_devices = 1;
};

class CrashNode {
 public:
  explicit CrashNode(const CrashNodeOptions& options);

  absl::Status Open();
  // The process dies; power stays.
  void Kill() { volume_.reset(); }
  // The power comes back after a cut (or is cut now and comes back): what was not flushed survives
  // in part, as `seed` decides.
  void Reboot(uint64_t seed);

  // Somebody forgets the metadata and wipes what marks the devices as a node's; the rest of the old
  // node stays where it is. The next start formats a new one.
  void Reinitialise();
  // Called before each commit of metadata.
  void OnCommit(std::function<void(const MetadataBatch&)> look) { on_commit_ = std::move(look); }

  bool is_open() const { return volume_ != nullptr; }
  Volume& volume() { return *volume_; }
  PowerSource& power() { return *power_; }
  FaultyDisk& cache() { return *cache_; }
  FaultyDisk& capacity(size_t i) { return *capacity_[i]; }
  MemMetadata& metadata() { return *metadata_; }
  ManualClock& clock() { return clock_; }
  VolumeConfig& config() { return config_; }
  // Over all disks; the same seed must give the same.
  uint64_t log_hash() const;
  // The process dies; then the capacity tier recomputes reference counts, segment use and totals
  // from its map. The first fault in words, or "". With `metrics`, what the volume said of its
  // space must be what a fresh start computes.
  std::string CheckCapacity(const VolumeMetrics* metrics = nullptr);

 private:
  const CrashNodeOptions options_;
  ManualClock clock_;
  std::shared_ptr<PowerSource> power_;
  std::shared_ptr<FaultyDisk> cache_;
  std::vector<std::shared_ptr<FaultyDisk>> capacity_;
  std::unique_ptr<MemMetadata> metadata_ = std::make_unique<MemMetadata>();
  std::function<void(const MetadataBatch&)> on_commit_;
  uint8_t incarnation_ = 1;  // of the node on these disks: makes its UUID another
  VolumeConfig config_;
  std::unique_ptr<Volume> volume_;
};

}  // namespace ebb::storage
