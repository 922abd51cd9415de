// NodeProblem: a service's refusal about one node, with the names of the nodes there are.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "api/rest/message.h"
#include "engine/tuner_service.h"

namespace ebb::rest {

Problem NodeProblem(engine::TunerService& service, const std::string& node,
                    const absl::Status& status);

}  // namespace ebb::rest
