// The nodes' numbers in Prometheus' text form, names and units as docs/architecture.md lists them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tuner_service.h"

namespace ebb::rest {

struct MetricsInput {
  std::string version;
  std::array<uint64_t, 6> answers{};  // RestApi::AnswerCounts
  // Each node with its knobs; without knobs while it is disconnected.
  std::vector<std::pair<engine::NodeStatus, std::vector<engine::KnobState>>> nodes;
};

std::string MetricsText(const MetricsInput& input);

}  // namespace ebb::rest
