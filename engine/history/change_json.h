// Change as JSON text, the form it has inside the history.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

std::string ChangeToJson(const Change& change);
absl::StatusOr<Change> ChangeFromJson(std::string_view text);

// null: none. EffectFromJson throws nlohmann's exceptions.
nlohmann::json EffectToJson(const std::optional<Effect>& effect);
std::optional<Effect> EffectFromJson(const nlohmann::json& json);

}  // namespace ebb::engine
