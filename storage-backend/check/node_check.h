// NodeCheck looks a stopped node over without changing a byte of it: `ebb node check`.
//
// Superblocks and their copies, the groups as one node, the chain of the cache log, the map of the
// capacity tier (units, segments, reference counts, fingerprints) and, when asked for, the checksum
// of every live block on both tiers. What depends on something that is damaged is skipped, and the
// report says so: no fault found in a part that nobody could look at is not health.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage-backend/device/device.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

struct NodeConfig;

struct CheckOptions {
  bool data = false;                     // read and verify every block too
  std::function<void(double)> progress;  // a share in [0, 1], of reading data
};

struct CheckReport {
  struct Fault {
    std::string area;  // "superblock", "groups", "cache log", "map" or "data"
    std::string text;
  };
  std::string uuid;
  uint64_t volume_bytes = 0;
  uint64_t dirty_bytes = 0;  // only in the cache log
  bool closed_cleanly = true;
  uint64_t verified_blocks = 0;
  std::vector<Fault> faults;         // the first thousand
  uint64_t fault_count = 0;          // all of them
  std::vector<std::string> skipped;  // what could not be looked at for what stands in `faults`
};

// Everything is borrowed and only read.
struct CheckGroup {
  Device* cache = nullptr;
  std::vector<Device*> capacity;
  MetadataStore* metadata = nullptr;
};

// FailedPrecondition when the devices are all blank: there is no node yet.
absl::StatusOr<CheckReport> CheckGroups(const std::vector<CheckGroup>& groups,
                                        const CheckOptions& options);

// Opens what `config` names, read-only. An error means that nothing could be checked: the node
// runs, something is missing or may not be read, or there is no node yet.
absl::StatusOr<CheckReport> CheckNode(const NodeConfig& config, const CheckOptions& options);

}  // namespace ebb::storage
