#include "engine/public_json.h"

#include <string>

#include <nlohmann/json.hpp>

#include "base/time_text.h"

namespace ebb::engine {

using Json = nlohmann::ordered_json;

Json TimeToPublicJson(int64_t wall_ms) {
  return wall_ms == 0 ? Json() : Json(FormatRfc3339(wall_ms));
}

Json EffectToPublicJson(const std::optional<Effect>& effect) {
  if (!effect) return nullptr;
  return {{"mean", effect->mean}, {"low", effect->low}, {"high", effect->high}};
}

Json ChangeToPublicJson(const Change& change) {
  Json json;
  json["id"] = std::to_string(change.id);
  json["node"] = change.node;
  json["proposed_at"] = TimeToPublicJson(change.proposed_ms);
  json["applied_at"] = TimeToPublicJson(change.applied_ms);
  json["decided_at"] = TimeToPublicJson(change.decided_ms);
  json["actor"] = change.actor;
  json["goal"] = change.goal;
  json["context"] = change.context.empty() ? Json() : Json(change.context);
  Json& knobs = json["knobs"] = Json::array();
  for (const env::KnobChange& knob : change.knobs) {
    knobs.push_back({{"knob", knob.knob}, {"from", knob.from}, {"to", knob.to}});
  }
  json["reason"] = change.reason;
  json["predicted"] = EffectToPublicJson(change.predicted);
  json["measured"] = EffectToPublicJson(change.measured);
  json["smallest_detectable"] =
      change.smallest_detectable > 0 ? Json(change.smallest_detectable) : Json();
  json["windows_used"] = change.windows_used;
  json["outcome"] = VerdictWord(change.verdict);
  json["outcome_reason"] = change.verdict_reason;
  Json& steps = json["steps"] = Json::array();
  for (const ChangeStep& step : change.steps) {
    steps.push_back(
        {{"at", TimeToPublicJson(step.wall_ms)}, {"step", step.step}, {"text", step.text}});
  }
  return json;
}

}  // namespace ebb::engine
