#include "engine/loop/node_record.h"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 3> kKindWords = {"trial", "holdback", "restore"};

Json OpenJson(const std::optional<OpenWork>& open) {
  if (!open) return nullptr;
  return {{"kind", kKindWords[static_cast<size_t>(open->kind)]},
          {"change_id", open->change_id},
          {"to", open->to},
          {"decided_change", open->decided_change}};
}

std::optional<OpenWork> OpenFrom(const Json& json) {
  if (json.is_null()) return std::nullopt;
  OpenWork open;
  const auto word = json.at("kind").get<std::string>();
  for (size_t i = 0; i < kKindWords.size(); ++i) {
    if (kKindWords[i] == word) open.kind = static_cast<OpenWork::Kind>(i);
  }
  open.change_id = json.at("change_id").get<uint64_t>();
  open.to = json.at("to").get<NamedSetting>();
  open.decided_change = json.at("decided_change").get<std::string>();
  return open;
}

// Records of before custom goals have neither weights nor limits.
Goal GoalFrom(const Json& json) {
  Goal goal = ParseGoal(json.at("goal").get<std::string>()).value();
  const auto numbers = [&](const char* member) {
    return json.value(member, std::map<std::string, double>());
  };
  if (const auto weights = numbers("goal_weights"); !weights.empty()) ReadWeights(weights, goal);
  ReadLimits(numbers("goal_limits"), goal);
  return goal;
}

NodeRecord Parse(const Json& json) {
  NodeRecord record;
  record.id = json.at("id").get<std::string>();
  record.control_socket = json.at("control_socket").get<std::string>();
  record.goal = GoalFrom(json);
  record.mode = ParseMode(json.at("mode").get<std::string>()).value();
  record.on_exit = ParseOnExit(json.value("on_exit", "keep")).value();
  record.paused = json.at("paused").get<bool>();
  if (!json.at("paused_until_ms").is_null()) {
    record.paused_until_ms = json.at("paused_until_ms").get<int64_t>();
  }
  record.pause_reason = json.at("pause_reason").get<std::string>();
  record.before_attach = json.at("before_attach").get<NamedSetting>();
  record.standard = json.at("standard").get<NamedSetting>();
  record.incumbent = json.at("incumbent").get<NamedSetting>();
  record.last_node_event = json.at("last_node_event").get<uint64_t>();
  record.pins = json.at("pins").get<std::map<std::string, std::string>>();
  record.sources = json.at("sources").get<std::map<std::string, std::string>>();
  record.since_ms = json.at("since_ms").get<std::map<std::string, int64_t>>();
  record.restore_wanted = json.at("restore_wanted").get<bool>();
  record.restore_actor = json.at("restore_actor").get<std::string>();
  record.open = OpenFrom(json.at("open"));
  return record;
}

}  // namespace

NamedSetting NameSetting(const env::KnobSpace& space, const env::Setting& setting) {
  NamedSetting named;
  for (size_t i = 0; i < space.size(); ++i) named[space[i].name] = setting.values[i];
  return named;
}

env::Setting UnnameSetting(const env::KnobSpace& space, const NamedSetting& named,
                           const env::Setting& base) {
  env::Setting setting = base;
  for (size_t i = 0; i < space.size(); ++i) {
    const auto found = named.find(space[i].name);
    if (found != named.end()) setting.values[i] = found->second;
  }
  return setting;
}

std::string RecordToJson(const NodeRecord& record) {
  Json json{{"id", record.id},
            {"control_socket", record.control_socket},
            {"goal", GoalWord(record.goal.kind)},
            {"goal_weights", WeightsByName(record.goal)},
            {"goal_limits", LimitsByName(record.goal)},
            {"mode", ModeWord(record.mode)},
            {"on_exit", OnExitWord(record.on_exit)},
            {"paused", record.paused},
            {"paused_until_ms", nullptr},
            {"pause_reason", record.pause_reason},
            {"before_attach", record.before_attach},
            {"standard", record.standard},
            {"incumbent", record.incumbent},
            {"last_node_event", record.last_node_event},
            {"pins", record.pins},
            {"sources", record.sources},
            {"since_ms", record.since_ms},
            {"restore_wanted", record.restore_wanted},
            {"restore_actor", record.restore_actor},
            {"open", OpenJson(record.open)}};
  if (record.paused_until_ms) json["paused_until_ms"] = *record.paused_until_ms;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<NodeRecord> RecordFromJson(std::string_view text) {
  try {
    return Parse(Json::parse(text));
  } catch (const std::exception& error) {
    return absl::DataLossError(std::string("the record of an attached node cannot be read: ") +
                               error.what());
  }
}

std::string RecordKey(std::string_view node) { return fmt::format("{}{}", kRecordPrefix, node); }
std::string BaselineKey(std::string_view node) { return fmt::format("baseline/{}", node); }
std::string ContextKey(std::string_view node) { return fmt::format("context/{}", node); }
std::string UpliftKey(std::string_view node) { return fmt::format("uplift/{}", node); }
std::string AgentKey(std::string_view node, std::string_view agent) {
  return fmt::format("agent/{}/{}", node, agent);
}
std::string RecommendationsKey(std::string_view node) {
  return fmt::format("recommendations/{}", node);
}

}  // namespace ebb::engine
