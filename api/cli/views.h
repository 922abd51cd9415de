// How the daemon's JSON looks on a terminal. Only forward declarations of the JSON library here.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/cli/session.h"
#include "nlohmann/json_fwd.hpp"

namespace ebb::cli {

// An answer of the daemon; Unknown when it is not the JSON object it must be.
absl::StatusOr<nlohmann::ordered_json> ParseObject(const std::string& body);

// A member as text: strings as they are, null and absent as "", all else as JSON.
std::string Text(const nlohmann::ordered_json& object, std::string_view member);
// A member as a number; `absent` when it is null, absent or none.
double Number(const nlohmann::ordered_json& object, std::string_view member, double absent = 0);
// A member that is an object, or an empty object.
nlohmann::ordered_json Object(const nlohmann::ordered_json& object, std::string_view member);
// "2026-07-29 18:04:05" (UTC) of an RFC 3339 member; "" when absent.
std::string TimeText(const nlohmann::ordered_json& object, std::string_view member);
// "+8.0 % (3.0 to 13.0)" of an effect, "" of null.
std::string EffectText(const nlohmann::ordered_json& effect);
// "destage_watermark 50 % -> 70 %, ..." of a change's knobs.
std::string MoveText(const nlohmann::ordered_json& change);

// An array of nodes: one as a page of twelve lines at most, several as a table.
void PrintNodes(const Session& session, const nlohmann::ordered_json& nodes);
// An array of changes, newest first.
void PrintChanges(const Session& session, const nlohmann::ordered_json& changes);
// One change with its life.
void PrintChange(const Session& session, const nlohmann::ordered_json& change);

}  // namespace ebb::cli
