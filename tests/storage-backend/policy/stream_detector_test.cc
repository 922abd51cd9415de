#include "storage-backend/policy/stream_detector.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::storage {
namespace {

TEST(StreamDetectorTest, ThirdReadInARowIsSequential) {
  StreamDetector detector;

  EXPECT_FALSE(detector.Observe(100, 8).sequential);
  EXPECT_FALSE(detector.Observe(108, 8).sequential);
  const auto verdict = detector.Observe(116, 8);

  EXPECT_TRUE(verdict.sequential);
  EXPECT_EQ(verdict.run_blocks, 24U);
}

TEST(StreamDetectorTest, FollowsInterleavedAndReorderedStreams) {
  StreamDetector detector;

  StreamDetector::Verdict a;
  StreamDetector::Verdict b;
  for (uint64_t i = 0; i < 50; ++i) {
    a = detector.Observe(1000 + (i ^ 1) * 4, 4);  // neighbours swapped, as at queue depth 2
    b = detector.Observe(900'000 + i * 4, 4);
  }

  EXPECT_TRUE(a.sequential);
  EXPECT_EQ(a.run_blocks, 200U);
  EXPECT_TRUE(b.sequential);
  EXPECT_NE(a.stream, b.stream);
}

TEST(StreamDetectorTest, SaysWhoIsBehindWhatWasFetchedAhead) {
  StreamDetector detector;
  detector.Observe(0, 1);
  detector.Extend(0, 20);

  EXPECT_FALSE(detector.Observe(5, 1).at_front);
  EXPECT_TRUE(detector.Observe(20, 1).at_front);
}

TEST(StreamDetectorTest, RandomReadsAreSeldomTakenForStreams) {
  StreamDetector detector;
  Rng rng(1);

  int sequential = 0;
  for (int i = 0; i < 10'000; ++i) sequential += detector.Observe(rng.Below(1 << 20), 1).sequential;

  EXPECT_LT(sequential, 20);
}

TEST(StreamDetectorTest, BlocksFetchedAheadCountAndMoveTheExpectedPlace) {
  StreamDetector detector;
  detector.Observe(0, 1);
  detector.Observe(1, 1);
  const auto third = detector.Observe(2, 1);
  ASSERT_TRUE(third.sequential);

  detector.Extend(third.stream, 3 + 256);
  const auto next = detector.Observe(3 + 256, 1);

  EXPECT_TRUE(next.sequential);
  EXPECT_EQ(next.stream, third.stream);
  EXPECT_EQ(next.run_blocks, 3U + 256 + 1);
}

}  // namespace
}  // namespace ebb::storage
