// FakeTunerService: a TunerService whose nodes are written down, for tests of what stands above it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/tuner_service.h"

namespace ebb::engine {

class FakeTunerService final : public TunerService {
 public:
  // One node "alpha" with two knobs, `change_count` changes (newest last) and a minute of series.
  explicit FakeTunerService(uint64_t change_count = 5);

  absl::StatusOr<std::string> Attach(const std::string& control_socket, const std::string& id,
                                     const Goal& goal, Mode mode) override;
  absl::Status Detach(const std::string& node, bool restore) override;
  std::vector<NodeStatus> Nodes() override;
  absl::StatusOr<NodeStatus> Node(const std::string& node) override;
  absl::Status SetGoal(const std::string& node, const Goal& goal,
                       const std::string& actor) override;
  absl::Status SetMode(const std::string& node, Mode mode, const std::string& actor) override;
  absl::Status SetOnExit(const std::string& node, OnExit on_exit,
                         const std::string& actor) override;
  absl::Status Pause(const std::string& node, const std::string& reason,
                     std::optional<int64_t> until_ms, const std::string& actor) override;
  absl::Status Resume(const std::string& node, const std::string& actor) override;
  absl::Status Restore(const std::string& node, const std::string& actor) override;
  absl::StatusOr<std::vector<KnobState>> Knobs(const std::string& node) override;
  absl::Status Pin(const std::string& node, const std::string& knob, bool pinned,
                   const std::string& actor) override;
  absl::StatusOr<std::vector<Recommendation>> Recommendations(const std::string& node) override;
  absl::StatusOr<Recommendation> DecideRecommendation(const std::string& id, bool approve,
                                                      const std::string& reason,
                                                      const std::string& actor) override;
  absl::StatusOr<std::vector<Change>> Changes(const std::string& node,
                                              const ChangeQuery& query) override;
  absl::StatusOr<Change> GetChange(uint64_t id) override;
  absl::StatusOr<Series> ReadSeries(const std::string& node, int64_t from_ms, int64_t to_ms,
                                    size_t max_points) override;

  // What the last call gave on.
  std::string last_actor;
  std::string last_call;
  // Returned by every call that changes something, when not OK.
  absl::Status refusal;
  bool throw_in_nodes = false;

  static constexpr int64_t kStartMs = 1'700'000'000'000;

 private:
  absl::Status Write(const std::string& node, const std::string& call, const std::string& actor);

  std::mutex mutex_;
  std::map<std::string, NodeStatus> nodes_;
  std::vector<KnobState> knobs_;
  std::vector<Change> changes_;
  std::vector<Recommendation> recommendations_;
};

}  // namespace ebb::engine
