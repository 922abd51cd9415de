// NodeEnvironment: a live node seen through its control socket.
//
// A window is the difference of two metrics snapshots, window_ns apart; it is void, with the
// reason, when the node restarted inside it or its numbers are stale, impossible or contradict each
// other (snapshot.h). The descriptor comes from the sampled front-end stream (stream_descriptor.h).
// Observe fails with the node's error while the node is away and goes on by itself when it is back;
// the first window after that is void. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/units.h"
#include "env/environment.h"
#include "env/node/snapshot.h"
#include "env/node/stream_descriptor.h"
#include "env/node/stream_reader.h"

namespace ebb::storage {
class JsonRpcClient;
}

namespace ebb::env {

struct NodeEnvironmentConfig {
  std::string socket_path;
  uint64_t window_ns = kNsPerS;
  uint64_t call_timeout_ns = 5 * kNsPerS;
};

class NodeEnvironment final : public Environment {
 public:
  // Asks the node who it is and starts the first window. Unavailable when no node answers there.
  static absl::StatusOr<std::unique_ptr<NodeEnvironment>> Connect(
      const NodeEnvironmentConfig& config, Clock& clock);
  ~NodeEnvironment() override;

  const EnvironmentInfo& info() const override { return info_; }
  const KnobSpace& space() const override { return space_; }
  absl::StatusOr<Observation> Observe() override;
  double window_seconds() const override { return static_cast<double>(config_.window_ns) / 1e9; }
  absl::StatusOr<SettingState> ReadSettings() override;
  absl::StatusOr<AppliedSetting> Apply(const Setting& candidate, uint64_t base_version,
                                       const LeaseTerms& terms) override;
  absl::Status Renew(const std::string& lease, uint64_t lease_ms) override;
  absl::StatusOr<uint64_t> Commit(const std::string& lease) override;
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason) override;
  absl::StatusOr<uint64_t> SetIncumbent(const Setting& setting, const std::string& actor,
                                        const std::string& reason) override;
  absl::StatusOr<std::vector<NodeEvent>> Events(uint64_t after) override;

 private:
  // A snapshot and when, by our clock, it was taken.
  struct Mark {
    NodeSnapshot snapshot;
    uint64_t taken_ns = 0;
  };

  NodeEnvironment(const NodeEnvironmentConfig& config, Clock& clock);

  absl::StatusOr<std::string> Call(std::string_view method, const std::string& params = "{}");
  absl::Status Identify();
  absl::StatusOr<Mark> TakeMark();
  absl::Status WaitForWindowEnd();
  absl::Status ReadStream();
  absl::Status CheckLegal(const Setting& setting) const;
  absl::Status FollowSetting(uint64_t version);
  WorkloadDescriptor Describe(const WindowMetrics& metrics);

  const NodeEnvironmentConfig config_;
  Clock& clock_;
  std::unique_ptr<storage::JsonRpcClient> client_;
  EnvironmentInfo info_;
  KnobSpace space_;
  std::optional<StreamDescriptor> descriptor_;
  std::optional<StreamReader> stream_;
  std::optional<Mark> start_;    // of the present window; none when the node was away
  SettingState setting_;         // as last read
  std::string candidate_lease_;  // of our own trial ...
  uint64_t candidate_version_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace ebb::env
