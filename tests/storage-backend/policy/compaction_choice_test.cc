#include "storage-backend/policy/compaction_choice.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<CompactionCandidate> kNone;

CompactionInput InputOf(const std::vector<CompactionCandidate>& candidates, uint64_t free) {
  return {.candidates = candidates,
          .segment_bytes = 1000,
          .segments_free = free,
          .segments_total = 100,
          .step_bytes = 1000};
}

TEST(CompactionChoiceTest, LimitRisesAsSpaceRunsOut) {
  EXPECT_DOUBLE_EQ(CompactionLiveShareLimit(0.9), kCompactAlwaysLiveShare);
  EXPECT_DOUBLE_EQ(CompactionLiveShareLimit(0.25), kCompactAlwaysLiveShare);
  EXPECT_DOUBLE_EQ(CompactionLiveShareLimit(0.1), 0.5);
  EXPECT_DOUBLE_EQ(CompactionLiveShareLimit(0), 0.85);
  for (double free = 0; free < 1; free += 0.01) {
    EXPECT_GE(CompactionLiveShareLimit(free), CompactionLiveShareLimit(free + 0.01));
  }
}

TEST(CompactionChoiceTest, LeavesHalfLiveSegmentsAloneWhileSpaceIsFree) {
  const std::vector<CompactionCandidate> candidates = {{0, 1, 400}, {0, 2, 600}};

  EXPECT_THAT(ChooseCompaction(InputOf(candidates, 50)), IsEmpty());
  EXPECT_THAT(ChooseCompaction(InputOf(candidates, 10)), ElementsAre(0));
  EXPECT_THAT(ChooseCompaction(InputOf(candidates, 0)), ElementsAre(0, 1));
}

TEST(CompactionChoiceTest, TakesTheEmptiestFirstUpToTheStep) {
  const std::vector<CompactionCandidate> candidates = {
      {0, 1, 490}, {0, 2, 100}, {1, 1, 450}, {0, 3, 450}};

  EXPECT_THAT(ChooseCompaction(InputOf(candidates, 10)), ElementsAre(1, 3, 2));
}

TEST(CompactionChoiceTest, TakesOneEvenWhenItIsMoreThanAStep) {
  CompactionInput input;
  const std::vector<CompactionCandidate> candidates = {{0, 1, 800}, {0, 2, 810}};
  input = InputOf(candidates, 0);
  input.step_bytes = 10;

  EXPECT_THAT(ChooseCompaction(input), ElementsAre(0));
}

TEST(CompactionChoiceTest, UrgencyMovesWhateverGainsSpace) {
  const std::vector<CompactionCandidate> candidates = {{0, 1, 949}, {0, 2, 951}};
  CompactionInput input = InputOf(candidates, 0);
  EXPECT_THAT(ChooseCompaction(input), IsEmpty());

  input.urgent_live_bytes_max = 950;

  EXPECT_THAT(ChooseCompaction(input), ElementsAre(0));
}

TEST(CompactionChoiceTest, NothingToChooseFromIsNothing) {
  EXPECT_THAT(ChooseCompaction(InputOf(kNone, 0)), IsEmpty());
  EXPECT_THAT(ChooseCompaction(CompactionInput{}), IsEmpty());
}

}  // namespace
}  // namespace ebb::storage
