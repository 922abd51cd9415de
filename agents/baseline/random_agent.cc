#include "agents/baseline/random_agent.h"

#include <algorithm>
#include <utility>

#include "agents/baseline/agent_state.h"
#include "agents/baseline/movable_knobs.h"
#include "base/rng.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::agents {
namespace {

// Rounding may draw the value in force again: then another draw, so many times.
constexpr int kDrawsMax = 16;

bool Redraw(const env::KnobSpace& space, size_t knob, Rng& rng, env::Setting& setting) {
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    const int64_t value = space.FromUnit(knob, rng.Uniform());
    if (value != setting.values[knob]) {
      setting.values[knob] = value;
      return true;
    }
  }
  return false;
}

// At most `count` of `knobs`, every choice as likely as any other.
std::vector<size_t> Draw(std::vector<size_t> knobs, size_t count, Rng& rng) {
  for (size_t i = 0; i < std::min(count, knobs.size()); ++i) {
    std::swap(knobs[i], knobs[i + rng.Below(knobs.size() - i)]);
  }
  knobs.resize(std::min(count, knobs.size()));
  return knobs;
}

}  // namespace

std::optional<Proposal> RandomAgent::Propose(const ProposalContext& context) {
  const std::vector<size_t> movable = MovableKnobs(context);
  if (movable.empty()) {
    hold_reason_ = "every knob is fixed, pinned or the operator's";
    return std::nullopt;
  }
  hold_reason_ = "the draw was the setting in force";
  Rng rng(seed_ + proposals_++ * 0x9e3779b97f4a7c15ULL);
  Proposal proposal{.candidate = context.incumbent, .predicted = std::nullopt, .reason = ""};
  if (kind_ == Kind::kOneKnob) {
    const size_t knob = movable[rng.Below(movable.size())];
    if (!Redraw(context.space, knob, rng, proposal.candidate)) return std::nullopt;
    proposal.reason = fmt::format("random draw of {}: {} instead of {}", context.space[knob].name,
                                  context.space.FormatValue(knob, proposal.candidate.values[knob]),
                                  context.space.FormatValue(knob, context.incumbent.values[knob]));
    return proposal;
  }
  size_t moved = 0;
  for (const size_t knob : Draw(movable, context.unpredicted_knobs_max, rng)) {
    moved += Redraw(context.space, knob, rng, proposal.candidate) ? 1 : 0;
  }
  if (moved == 0) return std::nullopt;
  proposal.reason = fmt::format("random draw of {} knobs", moved);
  return proposal;
}

std::string RandomAgent::Save() const {
  StateWriter writer(name(), 1);
  writer.AddUnsigned(seed_);
  writer.AddUnsigned(proposals_);
  return writer.Take();
}

absl::Status RandomAgent::Load(std::string_view state) {
  EBB_ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(state, name(), 1));
  const uint64_t seed = reader.Unsigned();
  const uint64_t proposals = reader.Unsigned();
  EBB_RETURN_IF_ERROR(reader.Close());
  seed_ = seed;
  proposals_ = proposals;
  return absl::OkStatus();
}

}  // namespace ebb::agents
