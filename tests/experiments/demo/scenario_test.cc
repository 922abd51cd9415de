#include "experiments/demo/scenario.h"

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/control/node_config.h"

namespace ebb::demo {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ScenarioTest, TheNodesConfigurationIsOneThatNodesRead) {
  const NodeShape shape = DemoShape();

  const auto config = storage::ParseNodeConfig(NodeConfigText(shape), "node.toml", "/scratch");

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->volume_bytes, shape.volume_bytes);
  EXPECT_EQ(config->groups[0].cache.create_bytes, shape.cache_bytes);
  EXPECT_EQ(config->groups[0].capacity.size(), static_cast<size_t>(shape.capacity_devices));
  EXPECT_EQ(config->groups[0].capacity[0].shape, shape.capacity_shape);
  EXPECT_EQ(config->control_socket, "/scratch/control.sock");
  EXPECT_EQ(config->nbd.socket, "/scratch/nbd.sock");
}

TEST(ScenarioTest, BurstsAreLargerThanTheCache) {
  const NodeShape shape = DemoShape();
  for (const Phase& phase : DemoPhases(shape)) {
    if (phase.id != "burst") continue;
    uint64_t request_bytes = 0;
    uint64_t requests = 0;
    for (const std::string& option : phase.fio) {
      if (option.starts_with("--bs=")) request_bytes = std::stoull(option.substr(5));
      if (option.starts_with("--thinktime_blocks=")) requests = std::stoull(option.substr(19));
    }
    EXPECT_GE(2 * requests * request_bytes, shape.cache_bytes) << "by the two jobs together";
    return;
  }
  FAIL() << "there is no burst phase";
}

TEST(ScenarioTest, TheVsanProfilesKeepSixteenOutstandingOnEachOfTwoDisks) {
  const NodeShape shape = DemoShape();
  Options options;
  const std::vector<Phase> phases = DemoPhases(shape);
  std::vector<std::string> ids;
  for (const Phase& phase : phases) ids.push_back(phase.id);
  EXPECT_THAT(ids, ElementsAre("read", "write", "mixed", "burst", "trace"));

  for (size_t i = 0; i < 3; ++i) {
    const auto command = LoadCommand(options, phases[i], "nbd://x", shape);
    EXPECT_THAT(command, Contains("--bs=4k"));
    EXPECT_THAT(command, Contains("--iodepth=16"));
    EXPECT_THAT(command, Contains("--name=disk1"));
    EXPECT_THAT(command, Contains("--name=disk2"));
    EXPECT_THAT(command, Contains("--offset=" + std::to_string(shape.volume_bytes / 2)));
  }
  const auto mixed = LoadCommand(options, phases[2], "nbd://x", shape);
  EXPECT_THAT(mixed, Contains("--rwmixread=65"));
  EXPECT_THAT(mixed, Contains("--percentage_random=60"));
}

// Goal: random is random. With fio's random map each pass touches every block once, in the same
// order after every start: the one pattern that no cache smaller than the volume ever hits.
TEST(ScenarioTest, RandomLoadsMayComeBackToABlockAtOnce) {
  const NodeShape shape = DemoShape();
  for (const Phase& phase : DemoPhases(shape)) {
    if (phase.fio.empty()) continue;
    EXPECT_THAT(LoadCommand(Options(), phase, "nbd://x", shape), Contains("--norandommap=1"));
  }
}

TEST(ScenarioTest, TheTraceIsReplayedByTheReplayer) {
  const NodeShape shape = DemoShape();
  Options options;
  options.bin_dir = "/bin/dir";
  options.trace_path = "/data/some.ebbt";

  const auto command = LoadCommand(options, DemoPhases(shape)[4], "nbd://x", shape);

  EXPECT_EQ(command[0], "/bin/dir/ebb");
  EXPECT_EQ(command[1], "trace");
  EXPECT_THAT(command, Contains("/data/some.ebbt"));
  EXPECT_THAT(command, Contains("nbd://x"));
}

TEST(ScenarioTest, TuningTakesTheMinutesItWasGiven) {
  const std::vector<Phase> phases = DemoPhases(DemoShape());
  for (agents::GoalKind goal :
       {agents::GoalKind::kRead, agents::GoalKind::kWrite, agents::GoalKind::kBalanced}) {
    uint32_t seconds = 0;
    for (const Stretch& stretch : TuningPlan(phases, goal, 4)) {
      ASSERT_LT(stretch.phase, phases.size());
      seconds += stretch.seconds;
    }
    EXPECT_NEAR(seconds, 240, 2);
  }
}

}  // namespace
}  // namespace ebb::demo
