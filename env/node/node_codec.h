// The control protocol's JSON, decoded into env/ types and back. Text in, text out: the JSON
// library stays in the .cc. Every decoder answers InvalidArgument, naming the field, for a reply
// that is not what PROTOCOL.md promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/environment.h"
#include "env/node/snapshot.h"
#include "env/node/stream_descriptor.h"

namespace ebb::env {

struct NodeInfo {
  EnvironmentInfo info;
  uint64_t volume_bytes = 0;
};

// What a node runs on.
struct NodeMachine {
  struct Device {
    std::string role;
    uint64_t size_bytes = 0;
    std::string shape = {};  // service model; empty: as fast as it is
    double shape_scale = 1;
  };
  std::vector<Device> devices;
  uint64_t groups = 1;
  uint64_t threads = 0;  // of the front end
  uint64_t host_memory_bytes = 0;
};

struct StreamSlice {
  std::vector<StreamEntry> entries;
  uint64_t next = 0;
  uint64_t dropped = 0;  // gone from the node's memory before they were asked for
  double sample_rate = 1;
};

absl::StatusOr<NodeInfo> DecodeNodeInfo(const std::string& json);
// Of the same answer.
absl::StatusOr<NodeMachine> DecodeNodeMachine(const std::string& json);
absl::StatusOr<KnobSpace> DecodeKnobSpace(const std::string& json);
absl::StatusOr<SettingState> DecodeSettings(const KnobSpace& space, const std::string& json);
absl::StatusOr<NodeSnapshot> DecodeSnapshot(const std::string& json);
absl::StatusOr<StreamSlice> DecodeStream(const std::string& json);
absl::StatusOr<std::vector<NodeEvent>> DecodeEvents(const std::string& json);
// The result of knobs.set.
absl::StatusOr<AppliedSetting> DecodeApplied(const std::string& json);
// The result of knobs.commit and knobs.revert.
absl::StatusOr<uint64_t> DecodeVersion(const std::string& json);

// Parameters of knobs.set; lease_ms 0 makes the setting the incumbent.
std::string EncodeSet(const KnobSpace& space, const Setting& setting, uint64_t version,
                      const LeaseTerms& terms);
std::string EncodeLease(const std::string& lease);
std::string EncodeRenew(const std::string& lease, uint64_t lease_ms);
std::string EncodeRevert(const std::string& lease, const std::string& reason);
std::string EncodeAfter(uint64_t after, uint64_t max);

}  // namespace ebb::env
