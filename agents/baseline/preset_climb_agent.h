// PresetClimbAgent proposes the device class's preset first and climbs from what was kept of it.
//
// The preset is knowledge bought offline and costs a few trials; the climb finds what it left. Both
// parts keep their own state.
#pragma once

#include "agents/baseline/hill_climb_agent.h"
#include "agents/baseline/static_agent.h"

namespace ebb::agents {

class PresetClimbAgent final : public Agent {
 public:
  explicit PresetClimbAgent(uint64_t seed) : climb_(seed) {}

  std::string_view name() const override { return "preset_climb"; }
  std::optional<Proposal> Propose(const ProposalContext& context) override;
  void Learn(const Transition& transition) override;
  std::string hold_reason() const override { return climb_.hold_reason(); }
  std::string Save() const override;
  absl::Status Load(std::string_view state) override;

 private:
  StaticAgent preset_;
  HillClimbAgent climb_;
  bool climbed_last_ = false;  // whose proposal a verdict is about
};

}  // namespace ebb::agents
