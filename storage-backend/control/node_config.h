// NodeConfig is a node as its TOML file describes it: what to open, where to listen.
//
// The text form, with every key (sizes as "8GiB" or bytes; relative paths lie beside the file):
//
//   name = "demo"
//   device_class = "disk"          # of the capacity tier: disk, sata-ssd, qlc-ssd, nvme or
//   unknown;
//                                  # sets the defaults of knobs (docs/presets.md)
//   volume_size = "8GiB"           # shown to clients
//   control_socket = "control.sock"
//   state_dir = "state"            # incumbent setting and events
//   metadata_dir = "metadata"      # block map (RocksDB)
//
//   [nbd]
//   socket = "nbd.sock"            # or: port = 10809 and address = "127.0.0.1"
//   threads = 16
//
//   [cache]
//   path = "cache.img"
//   size = "1GiB"                  # of the file made at the very first start when there is none
//   shape = "nvme"                 # service times of a named model; leave out on real hardware
//   shape_scale = 1                # that many times faster than the model
//
//   [[capacity]]                   # one to seven, keys as for the cache
//   path = "capacity-1.img"
//
// A node of several disk groups (up to five; the volume is striped over them) names each in full
// instead of metadata_dir, [cache] and [[capacity]]. Their order is part of the node.
//
//   [[group]]
//   metadata_dir = "metadata-1"
//   cache = { path = "/dev/nvme0n1" }
//   capacity = [{ path = "/dev/sda" }, { path = "/dev/sdb" }]
//
//   [setting]                      # knobs of the first start; later the node keeps its incumbent
//   destage_watermark = 60
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

inline constexpr size_t kCapacityDevicesMax = 7;
inline constexpr size_t kNodeGroupsMax = 5;
inline constexpr uint16_t kNbdPortDefault = 10809;

struct DeviceConfig {
  std::string path;
  uint64_t create_bytes = 0;  // 0: never made
  std::string shape = {};     // empty: as fast as it is
  double shape_scale = 1;
};

struct NbdConfig {
  std::string socket;   // empty: TCP
  std::string address;  // of TCP
  uint16_t port = 0;
  int threads = 16;
};

// One cache device with its capacity devices and their map.
struct GroupConfig {
  std::string metadata_dir;
  DeviceConfig cache;
  std::vector<DeviceConfig> capacity;
};

struct NodeConfig {
  std::string name;
  std::string device_class = "unknown";
  uint64_t volume_bytes = 0;
  std::string control_socket;
  std::string state_dir;
  NbdConfig nbd;
  std::vector<GroupConfig> groups;  // one at least
  Setting initial;
};

// InvalidArgument with every fault, one a line: "node.toml:4:1: there is no key volume_sze: did you
// mean volume_size?". `file_name` is for messages; `folder` is what relative paths are relative to.
absl::StatusOr<NodeConfig> ParseNodeConfig(std::string_view toml, const std::string& file_name,
                                           const std::string& folder);
absl::StatusOr<NodeConfig> LoadNodeConfig(const std::string& path);

// The TOML text of `config`, for people to edit: ParseNodeConfig reads it back as it was.
std::string FormatNodeConfig(const NodeConfig& config);

// "nbd+unix:///?socket=/x/nbd.sock" or "nbd://127.0.0.1:10809".
std::string NbdUri(const NbdConfig& nbd);

}  // namespace ebb::storage
