#include "storage-backend/policy/flush_grouping.h"

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

TEST(FlushGroupingTest, ALonelyFlushNeverWaits) {
  FlushGrouping grouping;
  for (int i = 0; i < 20; ++i) grouping.OnGroupDone(1, 0);

  EXPECT_EQ(grouping.WaitUntilNs(1000, 1, 5000), 1000U);
}

TEST(FlushGroupingTest, WaitsForThoseWhoCameLatelyAndNoLonger) {
  FlushGrouping grouping;
  grouping.OnGroupDone(1, 3);

  EXPECT_EQ(grouping.WaitUntilNs(1000, 1, 200), 1000U + 200'000);
  EXPECT_EQ(grouping.WaitUntilNs(1000, 2, 200), 1000U + 200'000);
  EXPECT_EQ(grouping.WaitUntilNs(1000, 3, 200), 1000U);
}

TEST(FlushGroupingTest, ForgetsCompanyThatStaysAway) {
  FlushGrouping grouping;
  grouping.OnGroupDone(4, 0);
  for (int i = 0; i < 8; ++i) grouping.OnGroupDone(1, 0);

  EXPECT_EQ(grouping.WaitUntilNs(1000, 1, 5000), 1000U);
}

TEST(FlushGroupingTest, WaitOfZeroIsNoWait) {
  FlushGrouping grouping;
  grouping.OnGroupDone(4, 0);

  EXPECT_EQ(grouping.WaitUntilNs(1000, 1, 0), 1000U);
}

}  // namespace
}  // namespace ebb::storage
