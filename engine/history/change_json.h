// Change as JSON text, the form it has inside the history.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tuner_service.h"

namespace ebb::engine {

std::string ChangeToJson(const Change& change);
absl::StatusOr<Change> ChangeFromJson(std::string_view text);

}  // namespace ebb::engine
