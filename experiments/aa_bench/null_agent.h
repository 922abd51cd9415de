// NullAgent proposes changes that do nothing: the incumbent once more, and a sham knob that goes to
// and fro, in turn. What the guard keeps of them it keeps by mistake.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "agents/agent.h"

namespace ebb::aa_bench {

// A knob that this load never feels, and two legal values of it.
struct ShamKnob {
  std::string name;
  int64_t a = 0;
  int64_t b = 0;
};

class NullAgent final : public agents::Agent {
 public:
  explicit NullAgent(ShamKnob sham) : sham_(std::move(sham)) {}

  std::string_view name() const override { return "null"; }
  std::optional<agents::Proposal> Propose(const agents::ProposalContext& context) override {
    const std::optional<size_t> knob = context.space.Find(sham_.name);
    if (!knob) return std::nullopt;
    agents::Proposal proposal;
    proposal.candidate = context.incumbent;
    proposal.reason = "the same setting again";
    if (proposals_++ % 2 == 1) {
      int64_t& value = proposal.candidate.values[*knob];
      value = value == sham_.a ? sham_.b : sham_.a;
      proposal.reason = sham_.name + ", which this load does not feel";
    }
    return proposal;
  }
  void Learn(const agents::Transition&) override {}
  std::string hold_reason() const override { return "the node has no knob " + sham_.name; }
  std::string Save() const override { return std::to_string(proposals_ % 2); }
  absl::Status Load(std::string_view state) override {
    proposals_ = state == "1" ? 1 : 0;
    return absl::OkStatus();
  }

 private:
  const ShamKnob sham_;
  uint64_t proposals_ = 0;
};

}  // namespace ebb::aa_bench
