// The JSON form of what TunerService tells: snake_case members, RFC 3339 times, sizes in bytes,
// shares from 0 to 1, absent values as null. Every function returns one JSON value as text.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tuner_service.h"

namespace ebb::rest {

// What is known of knobs by name, to write a choice as its word; a knob missing here is written as
// its number.
using KnobSpecs = std::map<std::string, env::KnobSpec, std::less<>>;

std::string NodeJson(const engine::NodeStatus& node, const KnobSpecs& specs);
std::string TunerJson(const engine::NodeStatus& node);
std::string GoalJson(const engine::NodeStatus& node);
std::string KnobJson(const engine::KnobState& knob);
std::string ChangeJson(const engine::Change& change, const KnobSpecs& specs);
std::string RecommendationJson(const engine::Recommendation& advice, const KnobSpecs& specs);
// Columns of equal length, NaN as null: the form that charts draw from. Where a point stands for
// several windows, "series" holds means, and "min", "max" and "counts" are there too, else null.
std::string SeriesJson(const std::string& node, int64_t from_ms, int64_t to_ms,
                       const engine::Series& series);
std::string QuotedJson(std::string_view text);
// "[a,b]" of JSON values.
std::string ArrayJson(const std::vector<std::string>& values);

}  // namespace ebb::rest
