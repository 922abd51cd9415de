#include "agents/baseline/make_agent.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::agents {
namespace {

TEST(MakeAgentTest, MakesEveryNamedAgent) {
  for (const std::string& name : AgentNames()) {
    absl::StatusOr<std::unique_ptr<Agent>> agent = MakeAgent(name, 1);
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ((*agent)->name(), name);
  }
}

TEST(MakeAgentTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const absl::Status status = MakeAgent("hillclimb", 1).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "there is no agent named \"hillclimb\"; the agents are default, static, random, "
            "random_one, hill_climb, preset_climb");
}

}  // namespace
}  // namespace ebb::agents
