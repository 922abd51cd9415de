#include "storage-backend/policy/reduction_choice.h"

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

// How many of `batches` are reduced while behind, when a batch of either kind takes so long.
int Reduced(ReductionChoice& choice, int batches, uint64_t reduced_ns, uint64_t plain_ns) {
  int count = 0;
  for (int i = 0; i < batches; ++i) {
    const bool reduce = choice.Reduce(/*behind=*/true);
    count += reduce ? 1 : 0;
    choice.Done(reduce, 1000, reduce ? reduced_ns : plain_ns);
  }
  return count;
}

TEST(ReductionChoiceTest, ReducesAlwaysWhenNotBehind) {
  ReductionChoice choice;
  Reduced(choice, 10, 9000, 1000);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(choice.Reduce(/*behind=*/false));
}

TEST(ReductionChoiceTest, SkipsWhereTheProcessorIsTheLimit) {
  ReductionChoice choice;
  EXPECT_LE(Reduced(choice, 100, 9000, 1000), 1 + 3);
}

TEST(ReductionChoiceTest, GoesOnWhereTheDevicesAreTheLimit) {
  ReductionChoice choice;
  EXPECT_GE(Reduced(choice, 100, 1000, 2000), 100 - 1 - 3);
}

TEST(ReductionChoiceTest, NoticesThatTheLoadHasChanged) {
  ReductionChoice choice;
  Reduced(choice, 100, 9000, 1000);
  EXPECT_GE(Reduced(choice, 500, 1000, 9000), 300);
}

}  // namespace
}  // namespace ebb::storage
