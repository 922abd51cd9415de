// MakeAgent: the baseline agents by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agents/agent.h"

namespace ebb::agents {

// default, static, random, random_one, hill_climb, preset_climb.
std::vector<std::string> AgentNames();
// InvalidArgument, listing the names, when there is no such agent.
absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(std::string_view name, uint64_t seed);

}  // namespace ebb::agents
