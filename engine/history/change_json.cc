#include "engine/history/change_json.h"

#include <nlohmann/json.hpp>

namespace ebb::engine {
namespace {

using Json = nlohmann::json;

Change Parse(const Json& json) {
  Change change;
  change.id = json.at("id").get<uint64_t>();
  change.node = json.at("node").get<std::string>();
  change.proposed_ms = json.at("proposed_ms").get<int64_t>();
  change.applied_ms = json.at("applied_ms").get<int64_t>();
  change.decided_ms = json.at("decided_ms").get<int64_t>();
  change.actor = json.at("actor").get<std::string>();
  change.goal = json.at("goal").get<std::string>();
  change.context = json.value("context", "");  // histories of before have none
  change.reason = json.at("reason").get<std::string>();
  change.predicted = EffectFromJson(json.at("predicted"));
  change.measured = EffectFromJson(json.at("measured"));
  change.smallest_detectable = json.at("smallest_detectable").get<double>();
  change.windows_used = json.at("windows_used").get<uint32_t>();
  change.verdict = ParseVerdict(json.at("verdict").get<std::string>()).value();
  change.verdict_reason = json.at("verdict_reason").get<std::string>();
  for (const Json& knob : json.at("knobs")) {
    change.knobs.push_back({knob.at("knob").get<std::string>(), knob.at("from").get<int64_t>(),
                            knob.at("to").get<int64_t>()});
  }
  for (const Json& step : json.at("steps")) {
    change.steps.push_back({step.at("wall_ms").get<int64_t>(), step.at("step").get<std::string>(),
                            step.at("text").get<std::string>()});
  }
  return change;
}

}  // namespace

Json EffectToJson(const std::optional<Effect>& effect) {
  if (!effect) return nullptr;
  return {{"mean", effect->mean}, {"low", effect->low}, {"high", effect->high}};
}

std::optional<Effect> EffectFromJson(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Effect{json.at("mean").get<double>(), json.at("low").get<double>(),
                json.at("high").get<double>()};
}

std::string ChangeToJson(const Change& change) {
  Json json{{"id", change.id},
            {"node", change.node},
            {"proposed_ms", change.proposed_ms},
            {"applied_ms", change.applied_ms},
            {"decided_ms", change.decided_ms},
            {"actor", change.actor},
            {"goal", change.goal},
            {"context", change.context},
            {"reason", change.reason},
            {"predicted", EffectToJson(change.predicted)},
            {"measured", EffectToJson(change.measured)},
            {"smallest_detectable", change.smallest_detectable},
            {"windows_used", change.windows_used},
            {"verdict", VerdictWord(change.verdict)},
            {"verdict_reason", change.verdict_reason},
            {"knobs", Json::array()},
            {"steps", Json::array()}};
  for (const env::KnobChange& knob : change.knobs) {
    json["knobs"].push_back({{"knob", knob.knob}, {"from", knob.from}, {"to", knob.to}});
  }
  for (const ChangeStep& step : change.steps) {
    json["steps"].push_back({{"wall_ms", step.wall_ms}, {"step", step.step}, {"text", step.text}});
  }
  // Text from other programs (a node's messages) may hold bytes that are no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Change> ChangeFromJson(std::string_view text) {
  try {
    return Parse(Json::parse(text));
  } catch (const std::exception& error) {
    return absl::DataLossError(std::string("a change in the history cannot be read: ") +
                               error.what());
  }
}

}  // namespace ebb::engine
