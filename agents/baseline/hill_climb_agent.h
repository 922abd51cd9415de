// HillClimbAgent moves one knob at a time and keeps going where it helped: a coordinate climb.
//
// Steps are a share of each knob's own scale (logarithmic ones by factors), large at first, because
// a small step has an effect that the guard cannot tell from noise. A knob whose move was not kept
// is tabu until all others had their turn, and then moves the other way. When a full round brought
// nothing, the step halves and the agent holds for a while, longer each time.
#pragma once

#include <deque>

#include "agents/agent.h"

namespace ebb::agents {

struct HillClimbConfig {
  double step_unit = 0.25;  // of a knob's scale
  double step_unit_min = 0.06;
  uint32_t hold_calls = 20;       // calls of Propose it holds after a round without success ...
  uint32_t hold_calls_max = 320;  // ... doubling up to this
};

class HillClimbAgent final : public Agent {
 public:
  explicit HillClimbAgent(uint64_t seed, const HillClimbConfig& config = {});

  std::string_view name() const override { return "hill_climb"; }
  std::optional<Proposal> Propose(const ProposalContext& context) override;
  void Learn(const Transition& transition) override;
  std::string hold_reason() const override { return hold_reason_; }
  std::string Save() const override;
  absl::Status Load(std::string_view state) override;

 private:
  struct Coordinate {
    std::string knob;
    bool upward = true;  // the direction to try next
    bool tried_up = false;
    bool tried_down = false;

    bool& tried(bool up) { return up ? tried_up : tried_down; }
    bool exhausted() const { return tried_up && tried_down; }
  };

  void AddMissingCoordinates(const ProposalContext& context);
  std::optional<Proposal> TryFront(const ProposalContext& context);
  void GiveUpFrontMove();
  void RotateFrontToBack();
  void EndRound();

  HillClimbConfig config_;
  uint64_t seed_;
  // The knobs in the order of their turns; the front one is next.
  std::deque<Coordinate> coordinates_;
  double step_unit_;
  bool pending_ = false;  // the front coordinate's move is on trial
  int voids_ = 0;         // trials of the front move that did not count
  uint32_t hold_calls_left_ = 0;
  uint32_t hold_calls_next_;
  std::string hold_reason_ = "nothing was asked yet";
};

}  // namespace ebb::agents
