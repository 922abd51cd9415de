// Judge stands in for the guard in tests of agents: it keeps what is truly better on a noiseless
// model environment.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "agents/agent.h"
#include "env/testing/simple_model_environment.h"

namespace ebb::agents {

// A noiseless store whose true answers are known.
class Judge {
 public:
  explicit Judge(const env::SimpleModelConfig& config)
      : model_(config, clock_),
        incumbent_(model_.space().Default()),
        frozen_(model_.space().size(), false),
        latest_(*model_.Observe()) {}

  ProposalContext Context() {
    return {.space = model_.space(),
            .latest = latest_,
            .incumbent = incumbent_,
            .goal = GoalKind::kBalanced,
            .device_class = "disk",
            .frozen = frozen_};
  }
  // The verdict a perfect guard would give; a kept candidate becomes the incumbent.
  Transition Decide(const env::Setting& candidate) {
    const double gain = Gain(candidate) - Gain(incumbent_);
    Transition transition{.from = incumbent_,
                          .to = candidate,
                          .predicted = std::nullopt,
                          .measured = Effect{.mean = gain, .low = gain, .high = gain},
                          .outcome = gain > 0.005    ? Outcome::kKept
                                     : gain < -0.005 ? Outcome::kReverted
                                                     : Outcome::kInconclusive,
                          .descriptor = latest_.descriptor};
    if (transition.outcome == Outcome::kKept) incumbent_ = candidate;
    return transition;
  }
  double Gain(const env::Setting& setting) const { return model_.TrueLogGain(setting, 0.5); }
  double BestGain() const { return Gain(model_.BestSetting()); }
  void Freeze(std::string_view knob) { frozen_[*model_.space().Find(knob)] = true; }

  const env::KnobSpace& space() const { return model_.space(); }
  const env::Setting& incumbent() const { return incumbent_; }

 private:
  ManualClock clock_;
  env::SimpleModelEnvironment model_;
  env::Setting incumbent_;
  std::vector<bool> frozen_;
  env::Observation latest_;
};

inline env::SimpleModelConfig Noiseless() {
  env::SimpleModelConfig config = env::DefaultModelConfig();
  config.noise_cv = 0;
  return config;
}

// What the agent does in `calls` calls: the candidate, or nothing where it held.
inline std::vector<std::optional<env::Setting>> Play(Agent& agent, Judge& judge, int calls) {
  std::vector<std::optional<env::Setting>> actions;
  for (int i = 0; i < calls; ++i) {
    std::optional<Proposal> proposal = agent.Propose(judge.Context());
    actions.push_back(proposal ? std::optional(proposal->candidate) : std::nullopt);
    if (proposal) agent.Learn(judge.Decide(proposal->candidate));
  }
  return actions;
}

}  // namespace ebb::agents
