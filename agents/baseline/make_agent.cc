#include "agents/baseline/make_agent.h"

#include <array>

#include "absl/strings/str_join.h"
#include "agents/baseline/default_agent.h"
#include "agents/baseline/hill_climb_agent.h"
#include "agents/baseline/preset_climb_agent.h"
#include "agents/baseline/random_agent.h"
#include "agents/baseline/static_agent.h"
#include "fmt/format.h"

namespace ebb::agents {
namespace {

struct NamedAgent {
  std::string_view name;
  std::unique_ptr<Agent> (*make)(uint64_t seed);
};

constexpr std::array<NamedAgent, 6> kAgents = {{
    {"default",
     [](uint64_t) -> std::unique_ptr<Agent> { return std::make_unique<DefaultAgent>(); }},
    {"static", [](uint64_t) -> std::unique_ptr<Agent> { return std::make_unique<StaticAgent>(); }},
    {"random",
     [](uint64_t seed) -> std::unique_ptr<Agent> {
       return std::make_unique<RandomAgent>(RandomAgent::Kind::kAllKnobs, seed);
     }},
    {"random_one",
     [](uint64_t seed) -> std::unique_ptr<Agent> {
       return std::make_unique<RandomAgent>(RandomAgent::Kind::kOneKnob, seed);
     }},
    {"hill_climb",
     [](uint64_t seed) -> std::unique_ptr<Agent> {
       return std::make_unique<HillClimbAgent>(seed);
     }},
    {"preset_climb",
     [](uint64_t seed) -> std::unique_ptr<Agent> {
       return std::make_unique<PresetClimbAgent>(seed);
     }},
}};

}  // namespace

std::vector<std::string> AgentNames() {
  std::vector<std::string> names;
  for (const NamedAgent& agent : kAgents) names.emplace_back(agent.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Agent>> MakeAgent(std::string_view name, uint64_t seed) {
  for (const NamedAgent& agent : kAgents) {
    if (agent.name == name) return agent.make(seed);
  }
  return absl::InvalidArgumentError(fmt::format("there is no agent named \"{}\"; the agents are {}",
                                                name, absl::StrJoin(AgentNames(), ", ")));
}

}  // namespace ebb::agents
