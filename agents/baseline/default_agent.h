// DefaultAgent never proposes anything: the control group of every comparison.
#pragma once

#include "agents/agent.h"

namespace ebb::agents {

class DefaultAgent final : public Agent {
 public:
  std::string_view name() const override { return "default"; }
  std::optional<Proposal> Propose(const ProposalContext& context) override;
  void Learn(const Transition& transition) override;
  std::string hold_reason() const override;
  std::string Save() const override;
  absl::Status Load(std::string_view state) override;
};

}  // namespace ebb::agents
