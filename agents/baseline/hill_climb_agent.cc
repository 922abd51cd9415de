#include "agents/baseline/hill_climb_agent.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "agents/baseline/agent_state.h"
#include "agents/baseline/movable_knobs.h"
#include "base/rng.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::agents {
namespace {

constexpr int kVoidsMax = 2;
constexpr size_t kCoordinatesMax = 1000;

bool IsMovable(const ProposalContext& context, const std::vector<size_t>& movable,
               const std::string& knob) {
  const std::optional<size_t> index = context.space.Find(knob);
  return index && std::find(movable.begin(), movable.end(), *index) != movable.end();
}

// The value one step up or down; the next legal value where the step is too small to matter.
int64_t Step(const env::KnobSpace& space, size_t knob, int64_t from, double step_unit, bool up) {
  const double sign = up ? 1 : -1;
  const double unit = space.ToUnit(knob, from) + sign * step_unit;
  const int64_t to = space.FromUnit(knob, unit);
  if (to != from) return to;
  return space.Clamp(knob,
                     static_cast<double>(from) + sign * static_cast<double>(space[knob].step));
}

}  // namespace

HillClimbAgent::HillClimbAgent(uint64_t seed, const HillClimbConfig& config)
    : config_(config),
      seed_(seed),
      step_unit_(config.step_unit),
      hold_calls_next_(config.hold_calls) {}

void HillClimbAgent::AddMissingCoordinates(const ProposalContext& context) {
  std::vector<Coordinate> missing;
  for (size_t index : MovableKnobs(context)) {
    const std::string& knob = context.space[index].name;
    const bool known = std::any_of(coordinates_.begin(), coordinates_.end(),
                                   [&](const Coordinate& each) { return each.knob == knob; });
    if (!known) missing.push_back({.knob = knob});
  }
  // A drawn order: no knob is always first only because the table says so.
  Rng rng(seed_);
  for (size_t i = missing.size(); i > 1; --i) std::swap(missing[i - 1], missing[rng.Below(i)]);
  for (Coordinate& coordinate : missing) {
    coordinate.upward = rng.Chance(0.5);
    coordinates_.push_back(std::move(coordinate));
  }
}

std::optional<Proposal> HillClimbAgent::Propose(const ProposalContext& context) {
  // The last proposal was never put on trial, or nobody told what came of it.
  if (std::exchange(pending_, false)) GiveUpFrontMove();
  if (hold_calls_left_ > 0) {
    --hold_calls_left_;
    return std::nullopt;
  }
  AddMissingCoordinates(context);
  const std::vector<size_t> movable = MovableKnobs(context);
  if (movable.empty()) {
    hold_reason_ = "every knob is fixed, pinned or the operator's";
    return std::nullopt;
  }
  // Each turn either proposes, marks a direction as tried, or passes over a knob.
  for (size_t turn = 0; turn < 3 * coordinates_.size(); ++turn) {
    const Coordinate& front = coordinates_.front();
    if (front.exhausted() || !IsMovable(context, movable, front.knob)) {
      RotateFrontToBack();
    } else if (std::optional<Proposal> proposal = TryFront(context)) {
      return proposal;
    }
  }
  EndRound();
  return std::nullopt;
}

std::optional<Proposal> HillClimbAgent::TryFront(const ProposalContext& context) {
  Coordinate& front = coordinates_.front();
  if (front.tried(front.upward)) front.upward = !front.upward;
  const size_t knob = *context.space.Find(front.knob);
  const int64_t from = context.incumbent.values[knob];
  const int64_t to = Step(context.space, knob, from, step_unit_, front.upward);
  if (to == from) {  // at the end of its range
    front.tried(front.upward) = true;
    return std::nullopt;
  }
  pending_ = true;
  hold_reason_ = "a move is on trial";
  Proposal proposal{.candidate = context.incumbent, .predicted = std::nullopt, .reason = ""};
  proposal.candidate.values[knob] = to;
  proposal.reason =
      fmt::format("climb: {} {} from {} to {}", front.upward ? "raise" : "lower", front.knob,
                  context.space.FormatValue(knob, from), context.space.FormatValue(knob, to));
  return proposal;
}

void HillClimbAgent::Learn(const Transition& transition) {
  // Trials that others asked for (recall, holdback, operators) are no answer to our move.
  if (!pending_) return;
  pending_ = false;
  switch (transition.outcome) {
    case Outcome::kKept: {
      // The slope may have changed everywhere, except that going back is known to be worse.
      for (Coordinate& each : coordinates_) each.tried_up = each.tried_down = false;
      Coordinate& front = coordinates_.front();
      front.tried(!front.upward) = true;
      hold_calls_next_ = config_.hold_calls;
      voids_ = 0;
      return;
    }
    case Outcome::kVoid:
      if (++voids_ <= kVoidsMax) return;  // the same move again
      voids_ = 0;
      RotateFrontToBack();
      return;
    case Outcome::kReverted:
    case Outcome::kInconclusive:
      GiveUpFrontMove();
      return;
  }
}

void HillClimbAgent::GiveUpFrontMove() {
  Coordinate& front = coordinates_.front();
  front.tried(front.upward) = true;
  front.upward = !front.upward;
  voids_ = 0;
  RotateFrontToBack();
}

void HillClimbAgent::RotateFrontToBack() {
  coordinates_.push_back(std::move(coordinates_.front()));
  coordinates_.pop_front();
}

void HillClimbAgent::EndRound() {
  for (Coordinate& each : coordinates_) each.tried_up = each.tried_down = false;
  step_unit_ /= 2;
  if (step_unit_ < config_.step_unit_min) step_unit_ = config_.step_unit;
  hold_calls_left_ = hold_calls_next_;
  hold_calls_next_ = std::min(config_.hold_calls_max, hold_calls_next_ * 2);
  hold_reason_ = "a full round of moves brought nothing: holding before smaller or fresh steps";
}

std::string HillClimbAgent::Save() const {
  StateWriter writer(name(), 1);
  writer.AddUnsigned(seed_);
  writer.AddReal(step_unit_);
  writer.AddInteger(pending_ ? 1 : 0);
  writer.AddInteger(voids_);
  writer.AddUnsigned(hold_calls_left_);
  writer.AddUnsigned(hold_calls_next_);
  writer.AddUnsigned(coordinates_.size());
  for (const Coordinate& each : coordinates_) {
    writer.AddWord(each.knob);
    writer.AddInteger((each.upward ? 1 : 0) + (each.tried_up ? 2 : 0) + (each.tried_down ? 4 : 0));
  }
  return writer.Take();
}

absl::Status HillClimbAgent::Load(std::string_view state) {
  EBB_ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(state, name(), 1));
  HillClimbAgent loaded(reader.Unsigned(), config_);
  loaded.step_unit_ = reader.Real();
  loaded.pending_ = reader.Count(1) == 1;
  loaded.voids_ = static_cast<int>(reader.Count(kVoidsMax));
  loaded.hold_calls_left_ = static_cast<uint32_t>(reader.Count(config_.hold_calls_max));
  loaded.hold_calls_next_ = static_cast<uint32_t>(reader.Count(config_.hold_calls_max));
  const size_t count = reader.Count(kCoordinatesMax);
  for (size_t i = 0; i < count; ++i) {
    Coordinate coordinate{.knob = reader.Word()};
    const size_t flags = reader.Count(7);
    coordinate.upward = (flags & 1) != 0;
    coordinate.tried_up = (flags & 2) != 0;
    coordinate.tried_down = (flags & 4) != 0;
    loaded.coordinates_.push_back(std::move(coordinate));
  }
  EBB_RETURN_IF_ERROR(reader.Close());
  if (!(loaded.step_unit_ > 0 && loaded.step_unit_ <= 1) ||
      (loaded.pending_ && loaded.coordinates_.empty())) {
    return absl::InvalidArgumentError("saved state of agent hill_climb contradicts itself");
  }
  seed_ = loaded.seed_;
  step_unit_ = loaded.step_unit_;
  pending_ = loaded.pending_;
  voids_ = loaded.voids_;
  hold_calls_left_ = loaded.hold_calls_left_;
  hold_calls_next_ = loaded.hold_calls_next_;
  coordinates_ = std::move(loaded.coordinates_);
  hold_reason_ =
      hold_calls_left_ > 0 ? "holding since before the restart" : "nothing was asked yet";
  return absl::OkStatus();
}

}  // namespace ebb::agents
