// What a node on this machine costs in processor time and metadata: measured, not known.
//
// A small volume over devices in memory is made and asked for everything that CpuCosts and
// MetadataCosts name: hits, writes, flushes, device waits, codecs, fingerprints, look-ups, destage,
// commits. Only `metadata_dir` is written to.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "env/twin/node_model.h"

namespace ebb::twin {

struct NodeCostOptions {
  // A folder for the metadata store, on the device that the node's own will be on; emptied first
  // by the caller.
  std::string metadata_dir;
  bool quick = false;  // a quarter of the samples
  std::function<void(double share, std::string_view what)> on_progress = {};
};

struct NodeCosts {
  CpuCosts cpu;
  MetadataCosts metadata;
};

// Leaves what belongs to the front end (nbd_request) at 0: see FrontEndCost.
absl::StatusOr<NodeCosts> MeasureNodeCosts(const NodeCostOptions& options);

}  // namespace ebb::twin
