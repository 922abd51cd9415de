#include "storage-backend/policy/write_throttle.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

constexpr double kMiBPerS = 1 << 20;

TEST(WriteThrottleTest, BelowTheStartNothingIsHeldBack) {
  WriteThrottle throttle;

  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(throttle.Admit({.now_ns = 1000 + i,
                              .bytes = 1 << 20,
                              .fill = 0.72,
                              .drain_bytes_per_s = kMiBPerS,
                              .softness = 50,
                              .watermark_percent = 50}),
              1000 + i);
  }
}

TEST(WriteThrottleTest, SoftnessMovesTheStart) {
  EXPECT_DOUBLE_EQ(WriteThrottle::StartFill(0, 50), 0.95);
  EXPECT_DOUBLE_EQ(WriteThrottle::StartFill(100, 0), 0.5);
  EXPECT_TRUE(std::isinf(
      WriteThrottle::AdmittedBytesPerSecond(0.9, WriteThrottle::StartFill(0, 0), kMiBPerS)));
  EXPECT_FALSE(std::isinf(
      WriteThrottle::AdmittedBytesPerSecond(0.9, WriteThrottle::StartFill(100, 0), kMiBPerS)));
}

TEST(WriteThrottleTest, NeverStartsBeforeDestageDoes) {
  EXPECT_DOUBLE_EQ(WriteThrottle::StartFill(100, 90), 0.925);
  EXPECT_GT(WriteThrottle::StartFill(100, 60), 0.6);
}

TEST(WriteThrottleTest, AdmittedRateFallsSmoothlyWithTheFill) {
  double before = WriteThrottle::AdmittedBytesPerSecond(0.726, 0.725, 100 * kMiBPerS);
  for (double fill = 0.727; fill < 0.98; fill += 0.001) {
    const double rate = WriteThrottle::AdmittedBytesPerSecond(fill, 0.725, 100 * kMiBPerS);
    EXPECT_LT(rate, before);
    if (fill > 0.74) {
      EXPECT_GT(rate, before * 0.9) << "a cliff at fill " << fill;
    }
    before = rate;
  }
}

TEST(WriteThrottleTest, ManyWritersShareOneSchedule) {
  WriteThrottle throttle;
  const WriteThrottle::Input input = {
      .now_ns = 1'000'000'000,
      .bytes = 1 << 20,
      .fill = (1 + WriteThrottle::StartFill(50, 50)) / 2,  // half way: the drain rate is admitted
      .drain_bytes_per_s = 100 * kMiBPerS,
      .softness = 50,
      .watermark_percent = 50};

  uint64_t last = input.now_ns;
  throttle.Admit(input);
  for (int i = 0; i < 10; ++i) {
    const uint64_t until = throttle.Admit(input);
    EXPECT_NEAR(static_cast<double>(until - last), 10e6, 1e5);
    last = until;
  }
}

// Goal: prove that the accepted rate meets the drain rate without a cliff. Method: simulate a log
// that drains at 40 MiB/s while the estimate says 25, offered far more; look at every second after
// the throttle began.
TEST(WriteThrottleTest, AcceptedRateConvergesToTheDrainRate) {
  constexpr double kSpace = 512.0 * (1 << 20);
  constexpr double kDrain = 40.0 * kMiBPerS;
  constexpr uint64_t kWriteBytes = 64 << 10;
  WriteThrottle throttle;
  double used = 0;
  uint64_t now_ns = 1;
  std::vector<double> bytes_in_second(120);

  bool throttled = false;
  uint64_t throttled_at_s = 0;
  while (now_ns < 120'000'000'000) {
    const uint64_t until = throttle.Admit({.now_ns = now_ns,
                                           .bytes = kWriteBytes,
                                           .fill = used / kSpace,
                                           .drain_bytes_per_s = 25 * kMiBPerS,
                                           .softness = 50,
                                           .watermark_percent = 50});
    const uint64_t done_ns = std::max(until, now_ns) + 200'000;  // 312 MiB/s offered
    used = std::max(0.0, used - kDrain * static_cast<double>(done_ns - now_ns) / 1e9);
    used += kWriteBytes;
    ASSERT_LT(used, kSpace);
    if (!throttled && until > now_ns) {
      throttled = true;
      throttled_at_s = done_ns / 1'000'000'000;
    }
    now_ns = done_ns;
    if (now_ns / 1'000'000'000 < 120) bytes_in_second[now_ns / 1'000'000'000] += kWriteBytes;
  }

  ASSERT_TRUE(throttled);
  for (size_t s = throttled_at_s + 1; s < 119; ++s) {
    EXPECT_GT(bytes_in_second[s], 0.9 * kDrain) << "second " << s;
  }
  EXPECT_NEAR(bytes_in_second[110], kDrain, 0.05 * kDrain);
}

}  // namespace
}  // namespace ebb::storage
