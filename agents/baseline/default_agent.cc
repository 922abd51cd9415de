#include "agents/baseline/default_agent.h"

#include "agents/baseline/agent_state.h"
#include "base/status.h"

namespace ebb::agents {

std::optional<Proposal> DefaultAgent::Propose(const ProposalContext&) { return std::nullopt; }

void DefaultAgent::Learn(const Transition&) {}

std::string DefaultAgent::hold_reason() const {
  return "this agent never changes anything: it is the one to compare with";
}

std::string DefaultAgent::Save() const { return StateWriter(name(), 1).Take(); }

absl::Status DefaultAgent::Load(std::string_view state) {
  EBB_ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(state, name(), 1));
  return reader.Close();
}

}  // namespace ebb::agents
