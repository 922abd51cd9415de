#include "agents/baseline/agent_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::agents {
namespace {

using ::testing::HasSubstr;

TEST(AgentStateTest, ReadsBackWhatWasWritten) {
  StateWriter writer("climber", 3);
  writer.AddWord("alpha");
  writer.AddInteger(-5);
  writer.AddUnsigned(UINT64_MAX);
  writer.AddReal(0.1);
  const std::string text = writer.Take();

  absl::StatusOr<StateReader> reader = StateReader::Open(text, "climber", 3);

  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->Word(), "alpha");
  EXPECT_EQ(reader->Integer(), -5);
  EXPECT_EQ(reader->Unsigned(), UINT64_MAX);
  EXPECT_EQ(reader->Real(), 0.1);
  EXPECT_TRUE(reader->Close().ok());
}

TEST(AgentStateTest, SaysWhatIsWrong) {
  EXPECT_THAT(std::string(StateReader::Open("walker 3", "climber", 3).status().message()),
              HasSubstr("no saved state of agent climber"));
  EXPECT_THAT(std::string(StateReader::Open("climber 2", "climber", 3).status().message()),
              HasSubstr("format 2, not 3"));

  absl::StatusOr<StateReader> reader = StateReader::Open("climber 3 x", "climber", 3);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->Integer(), 0);
  EXPECT_EQ(reader->Word(), "") << "nothing is read after a fault";
  EXPECT_THAT(std::string(reader->Close().message()), HasSubstr("not a whole number"));
}

TEST(AgentStateTest, RefusesInfinityAndCountsOutOfRange) {
  absl::StatusOr<StateReader> reader = StateReader::Open("climber 3 inf", "climber", 3);
  ASSERT_TRUE(reader.ok());
  reader->Real();
  EXPECT_FALSE(reader->Close().ok());

  reader = StateReader::Open("climber 3 11", "climber", 3);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->Count(10), 0u);
  EXPECT_FALSE(reader->Close().ok());
}

}  // namespace
}  // namespace ebb::agents
