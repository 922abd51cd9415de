// StaticAgent proposes one known good setting for the device class and goal, then holds.
//
// The presets are data (static_agent.cc). Each is proposed in parts of at most two knobs, most
// important first, because the envelope allows no more at once for changes nobody has predicted;
// every part passes the guard like any other change.
#pragma once

#include <span>
#include <vector>

#include "agents/agent.h"

namespace ebb::agents {

struct PresetKnob {
  std::string_view knob;
  int64_t value;
};

// The preset of a device class ("disk", "sata-ssd", "nvme") and goal, most important knob first;
// empty when there is none.
std::span<const PresetKnob> PresetFor(std::string_view device_class, GoalKind goal);

class StaticAgent final : public Agent {
 public:
  std::string_view name() const override { return "static"; }
  std::optional<Proposal> Propose(const ProposalContext& context) override;
  void Learn(const Transition& transition) override;
  std::string hold_reason() const override { return hold_reason_; }
  std::string Save() const override;
  absl::Status Load(std::string_view state) override;

 private:
  // What was proposed and decided, so that a refused part is not asked for again.
  std::string preset_;  // "disk/balanced"
  std::vector<std::string> decided_;
  std::vector<std::string> pending_;
  int voids_ = 0;
  std::string hold_reason_ = "nothing was asked yet";
};

}  // namespace ebb::agents
