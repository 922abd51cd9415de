#include "storage-backend/policy/stuck_detector.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace ebb::storage {
namespace {

using Change = StuckDetector::Change;

TEST(StuckDetectorTest, TellsOnceWhenWorkStandsStill) {
  StuckDetector detector(30 * kNsPerS);
  EXPECT_EQ(detector.Observe(0, true, 7), Change::kNone);
  EXPECT_EQ(detector.Observe(29 * kNsPerS, true, 7), Change::kNone);

  EXPECT_EQ(detector.Observe(30 * kNsPerS, true, 7), Change::kStuck);
  EXPECT_TRUE(detector.stuck());
  EXPECT_EQ(detector.standing_ns(), 30 * kNsPerS);
  EXPECT_EQ(detector.Observe(60 * kNsPerS, true, 7), Change::kNone);
}

TEST(StuckDetectorTest, AnyProgressClearsIt) {
  StuckDetector detector(10);
  detector.Observe(0, true, 1);
  ASSERT_EQ(detector.Observe(10, true, 1), Change::kStuck);

  EXPECT_EQ(detector.Observe(11, true, 2), Change::kRecovered);
  EXPECT_FALSE(detector.stuck());
  EXPECT_EQ(detector.Observe(20, true, 2), Change::kNone);
  EXPECT_EQ(detector.Observe(21, true, 2), Change::kStuck);
}

TEST(StuckDetectorTest, EndOfTheWorkClearsItToo) {
  StuckDetector detector(10);
  detector.Observe(0, true, 1);
  ASSERT_EQ(detector.Observe(10, true, 1), Change::kStuck);

  EXPECT_EQ(detector.Observe(11, false, 1), Change::kRecovered);
}

TEST(StuckDetectorTest, TimeWithoutWorkDoesNotCount) {
  StuckDetector detector(10);
  detector.Observe(0, false, 1);
  EXPECT_EQ(detector.Observe(100, false, 1), Change::kNone);
  // The work comes now: its time begins now.
  EXPECT_EQ(detector.Observe(101, true, 1), Change::kNone);
  EXPECT_EQ(detector.Observe(110, true, 1), Change::kNone);
  EXPECT_EQ(detector.Observe(111, true, 1), Change::kStuck);
}

TEST(StuckDetectorTest, SteadyProgressIsNeverStuck) {
  StuckDetector detector(10);
  for (uint64_t now = 0; now < 1000; now += 9) {
    ASSERT_EQ(detector.Observe(now, true, now), Change::kNone);
  }
}

}  // namespace
}  // namespace ebb::storage
