#include "storage-backend/policy/failure_detector.h"

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

using Change = FailureDetector::Change;
constexpr uint64_t kS = 1'000'000'000;

TEST(FailureDetectorTest, OneErrorNowAndThenIsNoFailure) {
  FailureDetector detector;
  uint64_t transfers = 0;
  uint64_t now_ns = 0;

  for (uint64_t errors = 1; errors < 20; ++errors) {
    EXPECT_EQ(detector.Observe(now_ns += kS, transfers += 10, errors), Change::kNone);
    EXPECT_EQ(detector.Observe(now_ns += 31 * kS, transfers += 10, errors), Change::kNone);
  }
  EXPECT_FALSE(detector.failing());
}

TEST(FailureDetectorTest, IsToldOnceHoweverLongItLasts) {
  FailureDetector detector;
  EXPECT_EQ(detector.Observe(1 * kS, 100, 1), Change::kNone);
  EXPECT_EQ(detector.Observe(2 * kS, 102, 3), Change::kFailing);

  for (uint64_t i = 1; i < 100; ++i) {
    // Something succeeds in between, as reads of a device do whose writes fail.
    EXPECT_EQ(detector.Observe((2 + i) * kS, 102 + 2 * i, 3 + i), Change::kNone);
  }
  EXPECT_TRUE(detector.failing());
}

TEST(FailureDetectorTest, RecoversWhenItWorksAndNothingFailedForAWhile) {
  FailureDetector detector;
  ASSERT_EQ(detector.Observe(1 * kS, 5, 5), Change::kFailing);

  EXPECT_EQ(detector.Observe(100 * kS, 5, 5), Change::kNone) << "nobody asked it";
  EXPECT_EQ(detector.Observe(101 * kS, 6, 6), Change::kNone) << "somebody did";
  EXPECT_EQ(detector.Observe(102 * kS, 9, 6), Change::kNone) << "too early";
  EXPECT_EQ(detector.Observe(132 * kS, 9, 6), Change::kRecovered);
  EXPECT_EQ(detector.Observe(133 * kS, 11, 8), Change::kNone);
  EXPECT_EQ(detector.Observe(134 * kS, 12, 9), Change::kFailing);
}

}  // namespace
}  // namespace ebb::storage
