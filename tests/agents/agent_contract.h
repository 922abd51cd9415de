// AgentContract: what the engine relies on in every Agent, as an executable checklist.
//
// A test program includes this header and instantiates the suite with its agents. Included by
// one file of a program only: it defines the tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agents/judge.h"

namespace ebb::agents {

struct AgentContractCase {
  std::string name;
  std::function<std::unique_ptr<Agent>(uint64_t seed)> make;
};
inline void PrintTo(const AgentContractCase& value, std::ostream* out) { *out << value.name; }

class AgentContract : public ::testing::TestWithParam<AgentContractCase> {
 protected:
  std::unique_ptr<Agent> Make(uint64_t seed = 7) { return GetParam().make(seed); }
};

TEST_P(AgentContract, ProposesOnlyLegalMovesOfItsOwnKnobsWithAReason) {
  Judge judge(Noiseless());
  judge.Freeze("beta");
  std::unique_ptr<Agent> agent = Make();

  for (int i = 0; i < 400; ++i) {
    const std::optional<Proposal> proposal = agent->Propose(judge.Context());
    if (!proposal) {
      EXPECT_FALSE(agent->hold_reason().empty());
      continue;
    }
    ASSERT_THAT(judge.space().Faults(proposal->candidate), ::testing::IsEmpty());
    ASSERT_NE(proposal->candidate, judge.incumbent());
    ASSERT_FALSE(proposal->reason.empty());
    for (const env::KnobChange& change :
         Diff(judge.space(), judge.incumbent(), proposal->candidate)) {
      ASSERT_NE(change.knob, "beta") << "an operator froze it";
      ASSERT_NE(change.knob, "codec") << "it is the operator's";
    }
    agent->Learn(judge.Decide(proposal->candidate));
  }
}

TEST_P(AgentContract, HoldsWhenEveryKnobIsFrozen) {
  Judge judge(Noiseless());
  for (const env::KnobSpec& spec : judge.space().knobs()) judge.Freeze(spec.name);
  std::unique_ptr<Agent> agent = Make();

  for (int i = 0; i < 50; ++i) {
    ASSERT_FALSE(agent->Propose(judge.Context()).has_value());
    ASSERT_FALSE(agent->hold_reason().empty());
  }
}

TEST_P(AgentContract, SameSeedSameActions) {
  Judge judge_a(Noiseless());
  Judge judge_b(Noiseless());
  std::unique_ptr<Agent> a = Make(11);
  std::unique_ptr<Agent> b = Make(11);

  EXPECT_EQ(Play(*a, judge_a, 200), Play(*b, judge_b, 200));
}

// Method: two equal runs; in one the agent is saved into a fresh one (of another seed) midway.
TEST_P(AgentContract, ASavedAgentGoesOnAsIfNothingHappened) {
  for (int stop : {0, 1, 2, 5, 17, 60}) {
    Judge judge_a(Noiseless());
    Judge judge_b(Noiseless());
    std::unique_ptr<Agent> a = Make(3);
    std::unique_ptr<Agent> b = Make(3);
    Play(*a, judge_a, stop);
    Play(*b, judge_b, stop);

    std::unique_ptr<Agent> revived = Make(99);
    ASSERT_TRUE(revived->Load(b->Save()).ok()) << b->Save();

    ASSERT_EQ(revived->Save(), b->Save());
    EXPECT_EQ(Play(*a, judge_a, 120), Play(*revived, judge_b, 120)) << "stopped after " << stop;
  }
}

// The same in the middle of a trial: proposed, saved, revived, and then the verdict comes.
TEST_P(AgentContract, ASaveInTheMiddleOfATrialKeepsIt) {
  Judge judge_a(Noiseless());
  Judge judge_b(Noiseless());
  std::unique_ptr<Agent> a = Make(5);
  std::unique_ptr<Agent> b = Make(5);
  const std::optional<Proposal> first = a->Propose(judge_a.Context());
  b->Propose(judge_b.Context());

  std::unique_ptr<Agent> revived = Make(99);
  ASSERT_TRUE(revived->Load(b->Save()).ok());
  if (first) {
    a->Learn(judge_a.Decide(first->candidate));
    revived->Learn(judge_b.Decide(first->candidate));
  }

  EXPECT_EQ(Play(*a, judge_a, 50), Play(*revived, judge_b, 50));
}

TEST_P(AgentContract, RefusesASavedStateThatDoesNotFit) {
  std::unique_ptr<Agent> agent = Make();
  const std::string good = agent->Save();

  EXPECT_FALSE(agent->Load("").ok());
  EXPECT_FALSE(agent->Load("another_agent 1").ok());
  EXPECT_FALSE(agent->Load(good + " 1").ok());
  EXPECT_FALSE(agent->Load(good + " ").ok());
  EXPECT_EQ(agent->Save(), good) << "a refused state must change nothing";
}

TEST_P(AgentContract, SurvivesEveryOutcomeAndVerdictsItDidNotAskFor) {
  Judge judge(Noiseless());
  std::unique_ptr<Agent> agent = Make();
  Rng rng(13);

  for (int i = 0; i < 500; ++i) {
    const std::optional<Proposal> proposal = agent->Propose(judge.Context());
    Transition transition = judge.Decide(proposal ? proposal->candidate : judge.space().Default());
    transition.outcome = static_cast<Outcome>(rng.Below(4));
    if (rng.Chance(0.3)) transition.measured.reset();
    if (rng.Chance(0.8)) agent->Learn(transition);
    if (rng.Chance(0.1)) agent->Learn(transition);
  }
}

}  // namespace ebb::agents
