// What other programs are told: the same words over REST and in an export.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "engine/tuner_service.h"

namespace ebb::engine {

// RFC 3339; null for 0, which is no time.
nlohmann::ordered_json TimeToPublicJson(int64_t wall_ms);
// {mean, low, high}; null where there is none.
nlohmann::ordered_json EffectToPublicJson(const std::optional<Effect>& effect);
// Knobs are {knob, from, to} with plain numbers.
nlohmann::ordered_json ChangeToPublicJson(const Change& change);

}  // namespace ebb::engine
