// RandomAgent proposes settings drawn evenly over each knob's own scale: the floor that any agent
// with an idea must beat.
//
// "random" redraws as many of the knobs it may change as the guard lets it move at once, drawn too,
// "random_one" a single one. Its draws follow from the
// seed and the number of proposals made, so a saved state continues the same sequence.
#pragma once

#include "agents/agent.h"

namespace ebb::agents {

class RandomAgent final : public Agent {
 public:
  enum class Kind : uint8_t { kAllKnobs, kOneKnob };
  RandomAgent(Kind kind, uint64_t seed) : kind_(kind), seed_(seed) {}

  std::string_view name() const override {
    return kind_ == Kind::kAllKnobs ? "random" : "random_one";
  }
  std::optional<Proposal> Propose(const ProposalContext& context) override;
  void Learn(const Transition&) override {}
  std::string hold_reason() const override { return hold_reason_; }
  std::string Save() const override;
  absl::Status Load(std::string_view state) override;

 private:
  const Kind kind_;
  uint64_t seed_;
  uint64_t proposals_ = 0;
  std::string hold_reason_;
};

}  // namespace ebb::agents
