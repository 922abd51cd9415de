// The file that `ebb twin fit` writes and `ebb twin run|sweep --model` read: what was measured of a
// node and its devices, as TOML.
//
//   [node]      cores, workers, client_overhead_ns
//   [cpu]       CpuCosts, in ns
//   [metadata]  commit_ns, commit_byte_ns, page_write_bytes
//   [cache]     family = "flash" or "disk" and the numbers of storage::ServiceParameters
//   [capacity]  likewise, of each capacity device
//
// Whatever is left out keeps its value, so a file may hold one device only.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "env/twin/node_model.h"

namespace ebb::twin {

// Which parts FormatNodeModel writes; devices are written when they are fitted.
struct ModelParts {
  bool node = true;  // [node], [cpu] and [metadata]
};
// `comment`: lines put on top, each behind a #.
std::string FormatNodeModel(const NodeModel& node, std::string_view comment,
                            const ModelParts& parts = {});

// `base` changed as the text says. InvalidArgument with the place and the reason of the first
// fault: "fit.toml:3:1: [cpu] has no key write_blok: did you mean write_block?".
absl::StatusOr<NodeModel> ParseNodeModel(std::string_view toml, const std::string& file_name,
                                         const NodeModel& base);
absl::StatusOr<NodeModel> LoadNodeModel(const std::string& path, const NodeModel& base);

}  // namespace ebb::twin
