// EngineService is the TunerService of the daemon: one NodeLoop a node, one history for all.
//
// Attached nodes are remembered in the history and attached again at the next start. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/history/history.h"
#include "engine/loop/loop_config.h"
#include "engine/loop/node_loop.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

class EngineService final : public TunerService {
 public:
  // `clock` must live longer than the service.
  static absl::StatusOr<std::unique_ptr<EngineService>> Open(Clock& clock,
                                                             std::unique_ptr<History> history,
                                                             EnvironmentFactory make_environment,
                                                             AgentFactory make_agent,
                                                             const LoopConfig& config);
  // Ends open trials (void) and puts their nodes back on the incumbent; kept settings stay, or the
  // setting from before attach returns, as each node's on_exit says.
  ~EngineService() override;

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
  // For the history command and the exporter.
  History& history() { return *history_; }

 private:
  EngineService(Clock& clock, std::unique_ptr<History> history, EnvironmentFactory make_environment,
                AgentFactory make_agent, const LoopConfig& config);
  absl::StatusOr<std::shared_ptr<NodeLoop>> Find(const std::string& node);
  std::shared_ptr<NodeLoop> MakeLoop(NodeRecord record,
                                     std::unique_ptr<env::Environment> environment);
  void ReapDetached();

  std::unique_ptr<History> history_;
  NodeLoopParts parts_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<NodeLoop>> loops_;    // in the order of attachment
  std::vector<std::shared_ptr<NodeLoop>> leaving_;  // detached, their threads still end
};

}  // namespace ebb::engine
