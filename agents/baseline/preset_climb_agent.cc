#include "agents/baseline/preset_climb_agent.h"

#include <utility>

#include "agents/baseline/agent_state.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::agents {

std::optional<Proposal> PresetClimbAgent::Propose(const ProposalContext& context) {
  climbed_last_ = false;
  if (std::optional<Proposal> proposal = preset_.Propose(context)) return proposal;
  climbed_last_ = true;
  return climb_.Propose(context);
}

void PresetClimbAgent::Learn(const Transition& transition) {
  if (climbed_last_) {
    climb_.Learn(transition);
  } else {
    preset_.Learn(transition);
  }
}

// "preset_climb 1 <who proposed last> <bytes of the preset's state> <both states>".
std::string PresetClimbAgent::Save() const {
  const std::string preset = preset_.Save();
  StateWriter writer(name(), 1);
  writer.AddInteger(climbed_last_ ? 1 : 0);
  writer.AddUnsigned(preset.size());
  return fmt::format("{} {} {}", writer.Take(), preset, climb_.Save());
}

absl::Status PresetClimbAgent::Load(std::string_view state) {
  constexpr size_t kStateBytesMax = size_t{1} << 20;
  // Of the words before the two states only the first four are this agent's.
  EBB_ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(state, name(), 1));
  const bool climbed_last = reader.Count(1) == 1;
  const size_t preset_bytes = reader.Count(kStateBytesMax);
  EBB_ASSIGN_OR_RETURN(const std::string rest, reader.TakeRest());
  if (rest.size() <= preset_bytes || rest[preset_bytes] != ' ') {
    return absl::InvalidArgumentError("saved state of agent preset_climb is cut short");
  }
  StaticAgent preset;
  HillClimbAgent climb = climb_;
  EBB_RETURN_IF_ERROR(preset.Load(std::string_view(rest).substr(0, preset_bytes)));
  EBB_RETURN_IF_ERROR(climb.Load(std::string_view(rest).substr(preset_bytes + 1)));
  preset_ = std::move(preset);
  climb_ = std::move(climb);
  climbed_last_ = climbed_last;
  return absl::OkStatus();
}

}  // namespace ebb::agents
