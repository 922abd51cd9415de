// Agent proposes the next setting to try and learns from what came of it.
//
// Knows env/ types only. Called from the engine's one thread per node. An agent never applies
// anything: the guard puts a proposal on trial, and the verdict comes back through Learn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "env/knob_space.h"
#include "env/observation.h"

namespace ebb::agents {

enum class GoalKind : uint8_t { kRead, kWrite, kBalanced };

// Effects are relative changes of the performance index: +0.10 = 10 % better.
struct Effect {
  double mean = 0;
  double low = 0;  // ends of the 95 % interval
  double high = 0;
};

enum class Outcome : uint8_t { kKept, kReverted, kInconclusive, kVoid };

// One finished trial.
struct Transition {
  env::Setting from;
  env::Setting to;
  std::optional<Effect> predicted;
  std::optional<Effect> measured;
  Outcome outcome = Outcome::kVoid;
  env::WorkloadDescriptor descriptor;
};

struct ProposalContext {
  const env::KnobSpace& space;
  const env::Observation& latest;
  const env::Setting& incumbent;
  GoalKind goal = GoalKind::kBalanced;
  std::string device_class;
  // Knobs an operator pinned or reserved: a proposal may not change them.
  std::vector<bool> frozen;
  // The guard refuses a proposal without a predicted effect that moves more knobs than this.
  size_t unpredicted_knobs_max = SIZE_MAX;
};

struct Proposal {
  env::Setting candidate;
  std::optional<Effect> predicted;  // none: the agent has no opinion
  std::string reason;               // one sentence an administrator understands
};

class Agent {
 public:
  virtual ~Agent() = default;
  virtual std::string_view name() const = 0;
  // Nothing: hold, with the reason in hold_reason().
  virtual std::optional<Proposal> Propose(const ProposalContext& context) = 0;
  virtual void Learn(const Transition& transition) = 0;
  virtual std::string hold_reason() const = 0;
  // State as bytes for the journal; Load refuses what does not fit.
  virtual std::string Save() const = 0;
  virtual absl::Status Load(std::string_view state) = 0;
};

}  // namespace ebb::agents
