// NodeRecord: what the sidecar must know about a node after it was killed.
//
// One document in the history, written in the same batch as the event that changed it. Settings are
// stored by knob name, so that a node with other knobs after an upgrade is understood.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

using NamedSetting = std::map<std::string, int64_t>;

NamedSetting NameSetting(const env::KnobSpace& space, const env::Setting& setting);
// Knobs that are missing in `named` keep their value of `base`.
env::Setting UnnameSetting(const env::KnobSpace& space, const NamedSetting& named,
                           const env::Setting& base);

// Something under way on the node: written before the node is touched, removed when it is done.
struct OpenWork {
  enum class Kind : uint8_t { kTrial, kHoldback, kRestore };
  Kind kind = Kind::kTrial;
  uint64_t change_id = 0;  // 0 for a holdback
  NamedSetting to;         // what the node is asked to run
  // The decision, once made: the final state of the change as JSON. Commit or revert follow.
  std::string decided_change = {};
};

struct NodeRecord {
  std::string id;
  std::string control_socket;
  Goal goal;
  Mode mode = Mode::kAuto;
  OnExit on_exit = OnExit::kKeep;
  bool paused = false;
  std::optional<int64_t> paused_until_ms;
  std::string pause_reason;
  // The node's incumbent when Ebb was attached: what restore brings back. Empty before the first
  // contact.
  NamedSetting before_attach;
  // What the index calls the default: before_attach, with the values that others have set since.
  NamedSetting standard;
  NamedSetting incumbent;  // what we trust the node to return to
  uint64_t last_node_event = 0;
  std::map<std::string, std::string> pins;     // knob -> who pinned it ("operator:root", "foreign")
  std::map<std::string, std::string> sources;  // knob -> tuner, operator, foreign; else default
  std::map<std::string, int64_t> since_ms;     // knob -> when its incumbent value last changed
  bool restore_wanted = false;                 // asked for while the node could not be reached
  std::string restore_actor;
  std::optional<OpenWork> open;
};

std::string RecordToJson(const NodeRecord& record);
absl::StatusOr<NodeRecord> RecordFromJson(std::string_view text);

// Keys of a node's documents in the history.
std::string RecordKey(std::string_view node);
std::string BaselineKey(std::string_view node);
std::string ContextKey(std::string_view node);
std::string UpliftKey(std::string_view node);
std::string AgentKey(std::string_view node, std::string_view agent);
std::string RecommendationsKey(std::string_view node);
inline constexpr std::string_view kRecordPrefix = "node/";

}  // namespace ebb::engine
