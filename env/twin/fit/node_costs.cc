#include "env/twin/fit/node_costs.h"

#include <algorithm>

#include "base/status.h"
#include "env/twin/fit/paced.h"
#include "env/twin/fit/store_costs.h"

namespace ebb::twin {

absl::StatusOr<NodeCosts> MeasureNodeCosts(const NodeCostOptions& options) {
  if (options.metadata_dir.empty()) {
    return absl::InvalidArgumentError("a folder for the metadata store is needed");
  }
  const size_t count = options.quick ? 200 : 800;
  const auto tell = [&](double share, std::string_view what) {
    if (options.on_progress) options.on_progress(share, what);
  };
  NodeCosts costs;
  costs.cpu.nbd_request = 0;
  tell(0, "hits, writes and flushes");
  EBB_RETURN_IF_ERROR(MeasureRequests(options, count, costs.cpu));
  tell(0.3, "groups that are full");
  EBB_RETURN_IF_ERROR(MeasureGroupClose(options, count, costs.cpu));
  tell(0.4, "waiting for devices");
  EBB_RETURN_IF_ERROR(MeasureDeviceWaits(options, count, costs.cpu));
  tell(0.55, "threads that wake up");
  const double idle_ns = SleepOvershootNs(count, 0);
  costs.cpu.contended_wake = std::max(0.0, SleepOvershootNs(count, 2) - idle_ns);
  tell(0.7, "codecs and fingerprints");
  EBB_RETURN_IF_ERROR(MeasureReduction(count, costs.cpu));
  tell(0.8, "the metadata store");
  EBB_RETURN_IF_ERROR(MeasureMetadata(options, count, costs));
  tell(0.9, "destage");
  EBB_RETURN_IF_ERROR(MeasureDestage(options, costs));
  tell(1, "done");
  return costs;
}

}  // namespace ebb::twin
