#include "storage-backend/policy/destage_pacing.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/units.h"

namespace ebb::storage {
namespace {

DestagePacing::Input Busy(uint64_t now_ns, double fill) {
  // A client request between any two looks.
  return {.now_ns = now_ns, .fill = fill, .has_work = true, .reads = now_ns, .writes = now_ns};
}

TEST(DestagePacingTest, StartsAboveTheWatermarkAndStopsBelowTheLowerMark) {
  DestagePacing pacing;

  EXPECT_FALSE(pacing.Decide(Busy(1, 0.49)).run);
  EXPECT_TRUE(pacing.Decide(Busy(2, 0.51)).run);
  EXPECT_TRUE(pacing.Decide(Busy(3, 0.46)).run);
  EXPECT_FALSE(pacing.Decide(Busy(4, 0.44)).run);
  EXPECT_FALSE(pacing.Decide(Busy(5, 0.49)).run);
}

// Open-CAS waits for ten idle seconds before it cleans, so it never cleans under load.
TEST(DestagePacingTest, WorksUnderFullLoad) {
  DestagePacing pacing;
  uint64_t now_ns = kNsPerS;
  int batches = 0;

  for (int look = 0; look < 10'000; ++look) {
    DestagePacing::Input input = Busy(now_ns, 0.6);
    input.politeness = 100;
    const auto decision = pacing.Decide(input);
    if (decision.run) {
      pacing.OnBatchDone(now_ns, now_ns + 10 * kNsPerMs);
      now_ns += 10 * kNsPerMs;
      ++batches;
    } else {
      ASSERT_GT(decision.wait_ns, 0U);
      now_ns += decision.wait_ns;
    }
  }

  EXPECT_GT(batches, 1000);
}

TEST(DestagePacingTest, DrainsToEmptyWhenIdle) {
  DestagePacing pacing;
  DestagePacing::Input input = {.now_ns = kNsPerS, .fill = 0.1, .has_work = true};
  EXPECT_FALSE(pacing.Decide(input).run);

  input.now_ns += DestagePacing::IdleWaitNs(input.politeness);
  EXPECT_TRUE(pacing.Decide(input).run);

  input.reads = 1;  // a client is back
  EXPECT_FALSE(pacing.Decide(input).run);
}

TEST(DestagePacingTest, PolitePausesGrowWithTheBatchAndVanishNearFull) {
  const auto pause_ns = [](double fill, int politeness, double fill_per_s) -> uint64_t {
    DestagePacing pacing;
    DestagePacing::Input input = Busy(kNsPerS, fill);
    input.politeness = politeness;
    input.fill_per_s = fill_per_s;
    EXPECT_TRUE(pacing.Decide(input).run);
    pacing.OnBatchDone(kNsPerS, kNsPerS + 10 * kNsPerMs);
    input.now_ns = kNsPerS + 10 * kNsPerMs;
    input.reads = input.now_ns;
    return pacing.Decide(input).wait_ns;
  };

  EXPECT_EQ(pause_ns(0.55, 0, 0), 0U);
  EXPECT_GT(pause_ns(0.55, 50, 0), 10 * kNsPerMs);
  EXPECT_GT(pause_ns(0.55, 100, 0), pause_ns(0.55, 50, 0));
  EXPECT_LT(pause_ns(0.95, 100, 0), kNsPerMs);
  EXPECT_LT(pause_ns(0.55, 100, 2.0), kNsPerMs);  // full in a quarter of a second
}

TEST(DestagePacingTest, DoesNotPauseForWritersOnly) {
  DestagePacing pacing;
  DestagePacing::Input input = {
      .now_ns = kNsPerS, .fill = 0.6, .has_work = true, .politeness = 100, .writes = 1};
  EXPECT_TRUE(pacing.Decide(input).run);
  pacing.OnBatchDone(kNsPerS, 2 * kNsPerS);
  input.now_ns = 2 * kNsPerS;
  input.writes = 2;

  EXPECT_TRUE(pacing.Decide(input).run);
}

TEST(DestagePacingTest, DrainRunsAtAnyFillButNotWithoutWork) {
  DestagePacing pacing;
  DestagePacing::Input input = Busy(1, 0.01);
  input.drain = true;
  EXPECT_TRUE(pacing.Decide(input).run);

  input.has_work = false;
  EXPECT_FALSE(pacing.Decide(input).run);
}

TEST(DestagePacingTest, ABatchIsAPartOfTheWriteSpaceHoweverLargeTheKnob) {
  constexpr uint64_t kMiBytes = 1 << 20;

  EXPECT_EQ(DestagePacing::BatchBytes(4 * kMiBytes, 1024 * kMiBytes), 4 * kMiBytes);
  EXPECT_EQ(DestagePacing::BatchBytes(64 * kMiBytes, 1024 * kMiBytes), 16 * kMiBytes);
  EXPECT_EQ(DestagePacing::BatchBytes(4 * kMiBytes, kMiBytes), kMiBytes / 4);
}

// How long a log at 0.7 takes to come below its lower mark: batches of 20 ms, each a hundredth of
// the write space, while clients read every millisecond or not at all.
double SecondsToLowerMark(int politeness, bool clients_read) {
  DestagePacing pacing;
  DestagePacing::Input input = {
      .now_ns = kNsPerS, .fill = 0.7, .has_work = true, .politeness = politeness, .reads = 1};
  pacing.Decide(input);
  input.now_ns += kNsPerS;  // the read is forgotten
  const uint64_t begin_ns = input.now_ns;
  while (input.fill >= DestagePacing::LowerMark(input.watermark_percent)) {
    if (clients_read) ++input.reads;
    const DestagePacing::Decision decision = pacing.Decide(input);
    if (decision.run) {
      pacing.OnBatchDone(input.now_ns, input.now_ns + 20 * kNsPerMs);
      input.now_ns += 20 * kNsPerMs;
      input.fill -= 0.01;
    } else {
      input.now_ns += std::min<uint64_t>(decision.wait_ns, kNsPerMs);
    }
  }
  return static_cast<double>(input.now_ns - begin_ns) / 1e9;
}

TEST(DestagePacingTest, PolitenessStretchesADrainThatReadersMeetAndNoOther) {
  const double rude = SecondsToLowerMark(0, /*clients_read=*/true);
  const double polite = SecondsToLowerMark(50, /*clients_read=*/true);
  const double most_polite = SecondsToLowerMark(100, /*clients_read=*/true);

  EXPECT_GT(polite, 1.5 * rude);
  EXPECT_GT(most_polite, 1.3 * polite);
  EXPECT_NEAR(SecondsToLowerMark(100, /*clients_read=*/false), rude, 0.1 * rude);
}

}  // namespace
}  // namespace ebb::storage
