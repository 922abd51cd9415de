// Which knobs an agent may move: its own ones that no operator froze and that have a choice at all.
#pragma once

#include <vector>

#include "agents/agent.h"

namespace ebb::agents {

inline std::vector<size_t> MovableKnobs(const ProposalContext& context) {
  std::vector<size_t> movable;
  for (size_t i = 0; i < context.space.size(); ++i) {
    const bool frozen = i < context.frozen.size() && context.frozen[i];
    if (context.space[i].agent_owned && !frozen &&
        context.space.FromUnit(i, 1) != context.space.FromUnit(i, 0)) {
      movable.push_back(i);
    }
  }
  return movable;
}

}  // namespace ebb::agents
