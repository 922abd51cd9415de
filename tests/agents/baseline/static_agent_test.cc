#include "agents/baseline/static_agent.h"

#include <algorithm>

#include "agents/baseline/preset_climb_agent.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agents/judge.h"

namespace ebb::agents {
namespace {

// A space with two of the store's real knobs and one that no preset names.
env::SimpleModelConfig NodeLike() {
  env::SimpleModelConfig config;
  config.knobs = {
      {.name = "nvme_read_share",
       .kind = env::KnobKind::kPercent,
       .max = 90,
       .default_value = 30,
       .step = 5},
      {.name = "destage_batch_bytes",
       .kind = env::KnobKind::kBytes,
       .min = 256 << 10,
       .max = 8 << 20,
       .default_value = 4 << 20,
       .step = 256 << 10,
       .log_scale = true},
      {.name = "destage_politeness", .max = 100, .default_value = 50, .step = 5},
      {.name = "unheard_of", .max = 10, .default_value = 5},
  };
  config.responses.assign(config.knobs.size(), {});
  config.noise_cv = 0;
  return config;
}

TEST(StaticAgentTest, EveryPresetNamesEachKnobOnce) {
  for (std::string_view device_class : {"disk", "sata-ssd", "nvme"}) {
    for (GoalKind goal : {GoalKind::kRead, GoalKind::kWrite, GoalKind::kBalanced}) {
      std::vector<std::string_view> names;
      for (const PresetKnob& each : PresetFor(device_class, goal)) names.push_back(each.knob);
      EXPECT_FALSE(names.empty()) << device_class;
      std::sort(names.begin(), names.end());
      EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << device_class;
    }
  }
  EXPECT_TRUE(PresetFor("tape", GoalKind::kRead).empty());
}

TEST(StaticAgentTest, ProposesThePresetInPartsThenHolds) {
  Judge judge(NodeLike());
  StaticAgent agent;
  std::vector<env::KnobChange> moves;
  for (int i = 0; i < 10; ++i) {
    const std::optional<Proposal> proposal = agent.Propose(judge.Context());
    if (!proposal) break;
    EXPECT_THAT(proposal->reason, ::testing::HasSubstr("disk/balanced preset"));
    const auto part = Diff(judge.space(), judge.incumbent(), proposal->candidate);
    EXPECT_LE(part.size(), 2u);
    moves.insert(moves.end(), part.begin(), part.end());
    agent.Learn(judge.Decide(proposal->candidate));
  }

  ASSERT_EQ(moves.size(), 3u);
  for (const env::KnobChange& move : moves) EXPECT_NE(move.knob, "unheard_of");
  EXPECT_FALSE(agent.Propose(judge.Context()));
  EXPECT_THAT(agent.hold_reason(), ::testing::HasSubstr("was tried"));
}

TEST(StaticAgentTest, ValuesAreCutToTheRangeOfTheNode) {
  Judge judge(NodeLike());
  StaticAgent agent;

  const std::optional<Proposal> proposal = agent.Propose(judge.Context());

  ASSERT_TRUE(proposal);
  EXPECT_THAT(judge.space().Faults(proposal->candidate), ::testing::IsEmpty());
  EXPECT_EQ(proposal->candidate.values[1], 8 << 20) << "16 MiB is more than this node allows";
}

TEST(StaticAgentTest, HoldsOnADeviceClassWithoutAPreset) {
  Judge judge(NodeLike());
  StaticAgent agent;
  ProposalContext context = judge.Context();
  context.device_class = "tape";

  EXPECT_FALSE(agent.Propose(context));
  EXPECT_EQ(agent.hold_reason(), "no preset for device class \"tape\"");
}

TEST(PresetClimbAgentTest, ClimbsOnceThePresetWasTried) {
  Judge judge(NodeLike());
  PresetClimbAgent agent(1);
  std::vector<std::string> reasons;
  for (int i = 0; i < 4; ++i) {
    const std::optional<Proposal> proposal = agent.Propose(judge.Context());
    ASSERT_TRUE(proposal);
    reasons.push_back(proposal->reason);
    agent.Learn(judge.Decide(proposal->candidate));
  }

  EXPECT_THAT(reasons[0], ::testing::HasSubstr("preset"));
  EXPECT_THAT(reasons[1], ::testing::HasSubstr("preset"));
  EXPECT_THAT(reasons[2], ::testing::HasSubstr("climb"));
  EXPECT_THAT(reasons[3], ::testing::HasSubstr("climb"));
}

}  // namespace
}  // namespace ebb::agents
