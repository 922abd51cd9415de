#include "tests/agents/agent_contract.h"

#include "agents/baseline/make_agent.h"

namespace ebb::agents {
namespace {

std::vector<AgentContractCase> EveryAgent() {
  std::vector<AgentContractCase> cases;
  for (const std::string& name : AgentNames()) {
    cases.push_back({name, [name](uint64_t seed) { return std::move(*MakeAgent(name, seed)); }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Baseline, AgentContract, ::testing::ValuesIn(EveryAgent()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ebb::agents
