// OpenNode makes a running node of its configuration: devices, metadata, volume, control socket.
//
// The one place of the store that names concrete devices and metadata.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/node_server.h"

namespace ebb::storage {

// Opens what `config` names, recovers, applies the incumbent and serves the control socket. Device
// files that do not exist are made at the very first start only (no incumbent on record and no
// metadata): later a missing file is a fault, which an empty one in its place would hide. Every
// error names the device or file at fault; nothing foreign is written to. Without
// `options.may_make` a node that was never started is refused, and nothing is made or formatted.
absl::StatusOr<std::unique_ptr<NodeServer>> OpenNode(const NodeConfig& config,
                                                     NodeServerOptions options);

}  // namespace ebb::storage
