#include "storage-backend/policy/fill_rate.h"

#include "base/units.h"
#include "gtest/gtest.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kSpaceBytes = 4096 * 10'000;

TEST(FillRateTest, IsZeroAtFirst) {
  FillRate rate;

  EXPECT_EQ(rate.Update(kNsPerS, 500, kSpaceBytes), 0);
}

TEST(FillRateTest, ApproachesTheSteadyRate) {
  FillRate rate;

  double seen = 0;
  for (uint64_t i = 1; i <= 100; ++i) {
    seen = rate.Update(i * 100 * kNsPerMs, i * 100, kSpaceBytes);
  }

  EXPECT_NEAR(seen, 0.1, 0.001);  // 1000 of 10,000 blocks a second
}

TEST(FillRateTest, FollowsAChangeWithinSeconds) {
  FillRate rate;
  uint64_t blocks = 0;
  uint64_t now_ns = kNsPerS;
  for (int i = 0; i < 100; ++i) rate.Update(now_ns += 100 * kNsPerMs, blocks += 100, kSpaceBytes);

  double seen = 0;
  for (int i = 0; i < 30; ++i) seen = rate.Update(now_ns += 100 * kNsPerMs, blocks, kSpaceBytes);

  EXPECT_LT(seen, 0.005);
}

TEST(FillRateTest, ForgetsWhatIsLongAgo) {
  FillRate rate;
  rate.Update(kNsPerS, 0, kSpaceBytes);
  rate.Update(2 * kNsPerS, 5'000, kSpaceBytes);

  EXPECT_EQ(rate.Update(20 * kNsPerS, 9'000, kSpaceBytes), 0);
}

}  // namespace
}  // namespace ebb::storage
