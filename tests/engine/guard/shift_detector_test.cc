#include "engine/guard/shift_detector.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::engine {
namespace {

LoadFeatures Load(Rng& rng, double in_flight, double read_share) {
  env::WorkloadDescriptor descriptor;
  descriptor.offered_ops_per_s = 3000;
  descriptor.mean_in_flight = in_flight * std::exp(0.05 * rng.Normal());
  descriptor.read_share = read_share + 0.01 * rng.Normal();
  descriptor.mean_read_bytes = 4096 * std::exp(0.02 * rng.Normal());
  descriptor.mean_write_bytes = 4096;
  descriptor.sequential_share = 0.1 + 0.01 * rng.Normal();
  return FeaturesOf(descriptor);
}

TEST(ShiftDetectorTest, IsQuietForADayOfStationaryLoad) {
  Rng rng(1);
  ShiftDetector detector({});
  int alarms = 0;
  for (int i = 0; i < 86400; i += 4)
    alarms += detector.Next(Load(rng, 16, 0.65)).has_value() ? 1 : 0;

  EXPECT_EQ(alarms, 0);
}

TEST(ShiftDetectorTest, FindsAJumpWithinFiveWindows) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    ShiftDetector detector({});
    for (int i = 0; i < 60; ++i) ASSERT_FALSE(detector.Next(Load(rng, 16, 0.5)));
    int windows = 0;
    bool found = false;
    while (!found && windows < 5) {
      ++windows;
      found = detector.Next(Load(rng, 16, 1.0)).has_value();
    }
    EXPECT_TRUE(found) << "seed " << seed;
  }
}

TEST(ShiftDetectorTest, FindsACreep) {
  Rng rng(2);
  ShiftDetector detector({});
  bool found = false;
  for (int i = 0; i < 60; ++i) ASSERT_FALSE(detector.Next(Load(rng, 16, 0.5)));
  for (int i = 0; i < 200 && !found; ++i) {
    found = detector.Next(Load(rng, 16 * std::exp(0.01 * i), 0.5)).has_value();
  }

  EXPECT_TRUE(found);
}

TEST(ShiftDetectorTest, BurstsAreTheirOwnNormal) {
  Rng rng(3);
  ShiftDetector detector({});
  int alarms = 0;
  for (int i = 0; i < 600; ++i) {
    const bool burst = i % 10 < 5;
    alarms += detector.Next(Load(rng, burst ? 32 : 2, 0.3)).has_value() ? 1 : 0;
  }

  EXPECT_LE(alarms, 1);
}

TEST(ShiftDetectorTest, OneOddWindowIsNoShift) {
  Rng rng(4);
  ShiftDetector detector({});
  for (int i = 0; i < 60; ++i) ASSERT_FALSE(detector.Next(Load(rng, 16, 0.5)));

  EXPECT_FALSE(detector.Next(Load(rng, 200, 1.0)));
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(detector.Next(Load(rng, 16, 0.5)));
}

}  // namespace
}  // namespace ebb::engine
