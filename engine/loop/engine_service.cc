#include "engine/loop/engine_service.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/status.h"

namespace ebb::engine {
namespace {

constexpr uint32_t kChangesMax = 500;
constexpr size_t kIdCharactersMax = 64;

bool IsLegalId(const std::string& id) {
  return !id.empty() && id.size() <= kIdCharactersMax &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

std::string IdFromName(const std::string& name) {
  std::string id;
  for (const char c : name.substr(0, kIdCharactersMax)) {
    id.push_back(IsLegalId(std::string(1, c)) ? c : '-');
  }
  return id.empty() ? "node" : id;
}

}  // namespace

EngineService::EngineService(Clock& clock, std::unique_ptr<History> history,
                             EnvironmentFactory make_environment, AgentFactory make_agent,
                             const LoopConfig& config)
    : history_(std::move(history)),
      parts_{clock, *history_, std::move(make_environment), std::move(make_agent), config} {}

absl::StatusOr<std::unique_ptr<EngineService>> EngineService::Open(
    Clock& clock, std::unique_ptr<History> history, EnvironmentFactory make_environment,
    AgentFactory make_agent, const LoopConfig& config) {
  std::unique_ptr<EngineService> service(new EngineService(
      clock, std::move(history), std::move(make_environment), std::move(make_agent), config));
  EBB_ASSIGN_OR_RETURN(const auto documents,
                       service->history_->Documents(std::string(kRecordPrefix)));
  for (const auto& [key, text] : documents) {
    EBB_ASSIGN_OR_RETURN(NodeRecord record, RecordFromJson(text));
    service->loops_.push_back(service->MakeLoop(std::move(record), nullptr));
  }
  for (const auto& loop : service->loops_) loop->Start();
  return service;
}

EngineService::~EngineService() {
  const std::lock_guard lock(mutex_);
  // All at once, so that the waits for their windows overlap.
  for (const auto& loop : loops_) loop->RequestStop();
  loops_.clear();
  leaving_.clear();
}

std::shared_ptr<NodeLoop> EngineService::MakeLoop(NodeRecord record,
                                                  std::unique_ptr<env::Environment> environment) {
  return std::make_shared<NodeLoop>(parts_, std::move(record), std::move(environment));
}

void EngineService::ReapDetached() {
  std::erase_if(leaving_, [](const auto& loop) { return loop->stopped(); });
}

absl::StatusOr<std::string> EngineService::Attach(const std::string& control_socket,
                                                  const std::string& id, const Goal& goal,
                                                  Mode mode) {
  if (!id.empty() && !IsLegalId(id)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no legal node id: 1 to {} letters, digits, '-', '_' and '.'", id,
                    kIdCharactersMax));
  }
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<env::Environment> environment,
                       parts_.make_environment(control_socket));
  NodeRecord record;
  record.id = id.empty() ? IdFromName(environment->info().name) : id;
  record.control_socket = control_socket;
  record.goal = goal;
  record.mode = mode;
  record.on_exit = parts_.config.on_exit;

  const std::lock_guard lock(mutex_);
  ReapDetached();
  for (const auto& loop : leaving_) {
    if (loop->Status().id == record.id) {
      return absl::FailedPreconditionError(
          fmt::format("node {} is still being detached; try again in a moment", record.id));
    }
  }
  for (const auto& loop : loops_) {
    const NodeStatus status = loop->Status();
    const bool same_store =
        !status.info.uuid.empty() && status.info.uuid == environment->info().uuid;
    if (status.id == record.id || status.control_socket == control_socket || same_store) {
      return absl::FailedPreconditionError(
          fmt::format("this node is attached already, as {}", status.id));
    }
  }
  HistoryWrite write;
  write.documents = {{RecordKey(record.id), RecordToJson(record)}};
  EBB_RETURN_IF_ERROR(history_->Write(write));
  std::shared_ptr<NodeLoop> loop = MakeLoop(record, std::move(environment));
  loop->Start();
  loops_.push_back(std::move(loop));
  return record.id;
}

absl::Status EngineService::Detach(const std::string& node, bool restore) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  if (restore && !loop->Status().connected) {
    return absl::FailedPreconditionError(
        "the node cannot be reached, so its setting cannot be restored now: " + loop->Status().why);
  }
  const std::lock_guard lock(mutex_);
  ReapDetached();
  loop->RequestDetach(restore, "operator: detach");
  std::erase(loops_, loop);
  leaving_.push_back(loop);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<NodeLoop>> EngineService::Find(const std::string& node) {
  const std::lock_guard lock(mutex_);
  for (const auto& loop : loops_) {
    if (loop->Status().id == node) return loop;
  }
  return absl::NotFoundError(fmt::format("there is no node {}", node));
}

std::vector<NodeStatus> EngineService::Nodes() {
  const std::lock_guard lock(mutex_);
  std::vector<NodeStatus> nodes;
  for (const auto& loop : loops_) nodes.push_back(loop->Status());
  return nodes;
}

absl::StatusOr<NodeStatus> EngineService::Node(const std::string& node) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->Status();
}

absl::Status EngineService::SetGoal(const std::string& node, const Goal& goal,
                                    const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->SetGoal(goal, actor);
}

absl::Status EngineService::SetMode(const std::string& node, Mode mode, const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->SetMode(mode, actor);
}

absl::Status EngineService::SetOnExit(const std::string& node, OnExit on_exit,
                                      const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->SetOnExit(on_exit, actor);
}

absl::Status EngineService::Pause(const std::string& node, const std::string& reason,
                                  std::optional<int64_t> until_ms, const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->Pause(reason, until_ms, actor);
}

absl::Status EngineService::Resume(const std::string& node, const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->Resume(actor);
}

absl::Status EngineService::Restore(const std::string& node, const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->Restore(actor);
}

absl::StatusOr<std::vector<KnobState>> EngineService::Knobs(const std::string& node) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  std::vector<KnobState> knobs = loop->Knobs();
  if (knobs.empty()) {
    return absl::FailedPreconditionError("the node has not been reached yet: " +
                                         loop->Status().why);
  }
  return knobs;
}

absl::Status EngineService::Pin(const std::string& node, const std::string& knob, bool pinned,
                                const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
  return loop->Pin(knob, pinned, actor);
}

absl::StatusOr<std::vector<Recommendation>> EngineService::Recommendations(
    const std::string& node) {
  if (!node.empty()) {
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(node));
    return loop->Recommendations();
  }
  std::vector<Recommendation> all;
  const std::lock_guard lock(mutex_);
  for (const auto& loop : loops_) {
    for (Recommendation& one : loop->Recommendations()) all.push_back(std::move(one));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.made_ms > b.made_ms; });
  return all;
}

absl::StatusOr<Recommendation> EngineService::DecideRecommendation(const std::string& id,
                                                                   bool approve,
                                                                   const std::string& reason,
                                                                   const std::string& actor) {
  EBB_ASSIGN_OR_RETURN(const std::vector<Recommendation> all, Recommendations(""));
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Recommendation& one) { return one.id == id; });
  if (found == all.end()) {
    return absl::NotFoundError(fmt::format("there is no recommendation {}", id));
  }
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<NodeLoop> loop, Find(found->node));
  return loop->DecideRecommendation(id, approve, reason, actor);
}

absl::StatusOr<std::vector<Change>> EngineService::Changes(const std::string& node,
                                                           const ChangeQuery& query) {
  if (query.limit < 1 || query.limit > kChangesMax) {
    return absl::InvalidArgumentError(fmt::format("limit must be 1 to {}", kChangesMax));
  }
  EBB_ASSIGN_OR_RETURN(std::vector<Change> changes, history_->Changes(node, query));
  if (changes.empty() && !node.empty()) {
    // Detached nodes keep their history; names that never existed are a mistake.
    ChangeQuery any;
    any.limit = 1;
    EBB_ASSIGN_OR_RETURN(const std::vector<Change> known, history_->Changes(node, any));
    if (known.empty()) EBB_RETURN_IF_ERROR(Find(node).status());
  }
  return changes;
}

absl::StatusOr<Change> EngineService::GetChange(uint64_t id) { return history_->GetChange(id); }

absl::StatusOr<Series> EngineService::ReadSeries(const std::string& node, int64_t from_ms,
                                                 int64_t to_ms, size_t max_points) {
  if (to_ms < from_ms) return absl::InvalidArgumentError("the series ends before it begins");
  EBB_ASSIGN_OR_RETURN(Series series, history_->ReadSeries(node, from_ms, to_ms, max_points));
  if (series.buckets.empty()) EBB_RETURN_IF_ERROR(Find(node).status());
  return series;
}

}  // namespace ebb::engine
