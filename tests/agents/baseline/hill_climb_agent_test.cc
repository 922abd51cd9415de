#include "agents/baseline/hill_climb_agent.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agents/judge.h"

namespace ebb::agents {
namespace {

// The knob of a one-knob proposal.
std::string Moved(const Judge& judge, const env::Setting& candidate) {
  const std::vector<env::KnobChange> changes = Diff(judge.space(), judge.incumbent(), candidate);
  return changes.size() == 1 ? changes[0].knob : "";
}

// Identity environment: knobs that do not depend on each other, and no noise.
TEST(HillClimbAgentTest, SolvesIndependentKnobsWithoutNoise) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Judge judge(Noiseless());
    HillClimbAgent agent(seed);

    Play(agent, judge, 300);

    EXPECT_GT(judge.Gain(judge.incumbent()), 0.95 * judge.BestGain()) << "seed " << seed;
  }
}

TEST(HillClimbAgentTest, GoesOnWhereItHelped) {
  Judge judge(Noiseless());
  HillClimbAgent agent(1);
  for (int i = 0; i < 50; ++i) {
    const std::optional<Proposal> proposal = agent.Propose(judge.Context());
    ASSERT_TRUE(proposal);
    const std::string knob = Moved(judge, proposal->candidate);
    const Transition transition = judge.Decide(proposal->candidate);
    agent.Learn(transition);
    if (transition.outcome != Outcome::kKept || knob == "gamma") continue;

    const std::optional<Proposal> next = agent.Propose(judge.Context());

    ASSERT_TRUE(next);
    EXPECT_EQ(Moved(judge, next->candidate), knob);
    const size_t index = *judge.space().Find(knob);
    EXPECT_EQ(transition.to.values[index] > transition.from.values[index],
              next->candidate.values[index] > judge.incumbent().values[index]);
    return;
  }
  FAIL() << "nothing was kept";
}

TEST(HillClimbAgentTest, ARevertedKnobWaitsUntilAllOthersHadTheirTurn) {
  Judge judge(Noiseless());
  HillClimbAgent agent(2);
  std::vector<std::string> order;
  for (int i = 0; i < 15; ++i) {
    const std::optional<Proposal> proposal = agent.Propose(judge.Context());
    if (!proposal) break;
    order.push_back(Moved(judge, proposal->candidate));
    Transition transition{.from = judge.incumbent(),
                          .to = proposal->candidate,
                          .predicted = std::nullopt,
                          .measured = std::nullopt,
                          .outcome = Outcome::kReverted,
                          .descriptor = {}};
    agent.Learn(transition);
  }

  // alpha, beta, gamma, sham and poison may move: five different ones in the first five turns.
  ASSERT_GE(order.size(), 5u);
  EXPECT_EQ(std::set<std::string>(order.begin(), order.begin() + 5).size(), 5u);
}

TEST(HillClimbAgentTest, ARoundThatBroughtNothingMakesItHold) {
  Judge judge(Noiseless());
  HillClimbAgent agent(2, {.hold_calls = 5, .hold_calls_max = 10});
  int holds = 0;
  int longest = 0;
  std::vector<int> runs;
  for (int i = 0; i < 100; ++i) {
    const std::optional<Proposal> proposal = agent.Propose(judge.Context());
    if (!proposal) {
      longest = std::max(longest, ++holds);
      EXPECT_THAT(agent.hold_reason(), ::testing::HasSubstr("brought nothing"));
      continue;
    }
    if (holds > 0) runs.push_back(holds);
    holds = 0;
    agent.Learn({.from = judge.incumbent(),
                 .to = proposal->candidate,
                 .predicted = std::nullopt,
                 .measured = std::nullopt,
                 .outcome = Outcome::kInconclusive,
                 .descriptor = {}});
  }

  ASSERT_GE(runs.size(), 3u);
  EXPECT_EQ(runs[0], 6) << "the call that ended the round, and five more";
  EXPECT_EQ(runs[1], 11);
  EXPECT_EQ(runs[2], 11) << "at its longest";
}

TEST(HillClimbAgentTest, AVoidTrialIsRepeatedButNotForEver) {
  Judge judge(Noiseless());
  HillClimbAgent agent(4);
  std::vector<env::Setting> candidates;
  for (int i = 0; i < 4; ++i) {
    const std::optional<Proposal> proposal = agent.Propose(judge.Context());
    ASSERT_TRUE(proposal);
    candidates.push_back(proposal->candidate);
    agent.Learn({.from = judge.incumbent(),
                 .to = proposal->candidate,
                 .predicted = std::nullopt,
                 .measured = std::nullopt,
                 .outcome = Outcome::kVoid,
                 .descriptor = {}});
  }

  EXPECT_EQ(candidates[1], candidates[0]);
  EXPECT_EQ(candidates[2], candidates[0]);
  EXPECT_NE(candidates[3], candidates[0]);
}

}  // namespace
}  // namespace ebb::agents
