#include "agents/baseline/random_agent.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agents/judge.h"

namespace ebb::agents {
namespace {

TEST(RandomAgentTest, OneKnobMovesExactlyOneAndComesToAll) {
  Judge judge(Noiseless());
  RandomAgent agent(RandomAgent::Kind::kOneKnob, 1);
  std::set<std::string> moved;
  for (int i = 0; i < 100; ++i) {
    const std::vector<env::KnobChange> changes =
        Diff(judge.space(), judge.incumbent(), agent.Propose(judge.Context())->candidate);
    ASSERT_EQ(changes.size(), 1u);
    moved.insert(changes[0].knob);
  }

  EXPECT_EQ(moved, (std::set<std::string>{"alpha", "beta", "gamma", "sham", "poison"}));
}

// Goal: draws are even on the knob's own scale, so that half of a byte knob's draws lie below the
// geometric middle of its range.
TEST(RandomAgentTest, AllKnobsAreDrawnEvenlyOnTheirScale) {
  Judge judge(Noiseless());
  RandomAgent agent(RandomAgent::Kind::kAllKnobs, 1);
  const size_t beta = *judge.space().Find("beta");
  int below = 0;
  for (int i = 0; i < 1000; ++i) {
    below += agent.Propose(judge.Context())->candidate.values[beta] < (16 << 20) ? 1 : 0;
  }

  EXPECT_NEAR(below, 500, 60);
}

// Goal: a proposal that the guard would refuse for its number of knobs is not made, and no knob is
// left out for ever.
TEST(RandomAgentTest, MovesNoMoreKnobsThanTheGuardAllows) {
  Judge judge(Noiseless());
  RandomAgent agent(RandomAgent::Kind::kAllKnobs, 1);
  ProposalContext context = judge.Context();
  context.unpredicted_knobs_max = 2;
  std::set<std::string> moved;
  for (int i = 0; i < 100; ++i) {
    const std::vector<env::KnobChange> changes =
        Diff(judge.space(), judge.incumbent(), agent.Propose(context)->candidate);
    ASSERT_GE(changes.size(), 1u);
    ASSERT_LE(changes.size(), 2u);
    for (const env::KnobChange& change : changes) moved.insert(change.knob);
  }

  EXPECT_EQ(moved, (std::set<std::string>{"alpha", "beta", "gamma", "sham", "poison"}));
}

TEST(RandomAgentTest, SeedsDiffer) {
  Judge judge(Noiseless());
  RandomAgent a(RandomAgent::Kind::kAllKnobs, 1);
  RandomAgent b(RandomAgent::Kind::kAllKnobs, 2);

  EXPECT_NE(a.Propose(judge.Context())->candidate, b.Propose(judge.Context())->candidate);
}

}  // namespace
}  // namespace ebb::agents
