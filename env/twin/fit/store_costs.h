// The parts of MeasureNodeCosts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "env/twin/fit/node_costs.h"
#include "storage-backend/metadata/metadata_store.h"
#include "storage-backend/volume/volume.h"

namespace ebb::twin {

// A volume of 192 MiB over devices in memory, shaped as `shape` unless that is empty. Background
// work only when asked for (Volume::RunBackgroundStep).
struct CostRig {
  static absl::StatusOr<CostRig> Make(const std::string& metadata_dir, const std::string& shape,
                                      const storage::Setting& setting);
  static constexpr uint64_t kVolumeBytes = 192ull << 20;

  std::unique_ptr<storage::Volume> volume;
};

// Compression off, no deduplication, no read cache, no clean copies: what other parts add to.
storage::Setting BareSetting();

// Reads and writes that need no device, flushes.
absl::Status MeasureRequests(const NodeCostOptions& options, size_t count, CpuCosts& cpu);
// What the write that fills a group takes beyond others.
absl::Status MeasureGroupClose(const NodeCostOptions& options, size_t count, CpuCosts& cpu);
// What a transfer costs a request beyond the device's own time.
absl::Status MeasureDeviceWaits(const NodeCostOptions& options, size_t count, CpuCosts& cpu);
// Codecs and fingerprints.
absl::Status MeasureReduction(size_t count, CpuCosts& cpu);
// Commits and look-ups.
absl::Status MeasureMetadata(const NodeCostOptions& options, size_t count, NodeCosts& costs);
// Destage of blocks stored directly, of units, of fingerprinted blocks. Needs the others' results.
absl::Status MeasureDestage(const NodeCostOptions& options, NodeCosts& costs);

}  // namespace ebb::twin
