#include "storage-backend/policy/compaction_pacing.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace ebb::storage {
namespace {

TEST(CompactionPacingTest, WaitsLongerThePoliterItIs) {
  EXPECT_EQ(CompactionIdleNs(0), 0U);
  EXPECT_EQ(CompactionIdleNs(50), 2 * kNsPerS);
  EXPECT_EQ(CompactionIdleNs(100), 8 * kNsPerS);
  for (int politeness = 5; politeness <= 100; politeness += 5) {
    EXPECT_GT(CompactionIdleNs(politeness), CompactionIdleNs(politeness - 5));
  }
}

}  // namespace
}  // namespace ebb::storage
