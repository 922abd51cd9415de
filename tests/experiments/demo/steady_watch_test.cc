#include "experiments/demo/steady_watch.h"

#include <gtest/gtest.h>

namespace ebb::demo {
namespace {

TEST(SteadyWatchTest, WaitsWhileTheLogFills) {
  SteadyWatch watch;
  double dirty = 0;
  for (int window = 0; window < 40; ++window) {
    EXPECT_FALSE(watch.Add(dirty)) << "window " << window;
    dirty += 0.01;
  }
  bool steady = false;
  for (int window = 0; window < 10 && !steady; ++window) steady = watch.Add(dirty);
  EXPECT_TRUE(steady);
}

TEST(SteadyWatchTest, TheSawtoothOfDestageIsSteady) {
  SteadyWatch watch;
  bool steady = false;
  for (size_t window = 0; window < 2 * SteadyWatch::kWindowsMin && !steady; ++window) {
    steady = watch.Add(0.5 + 0.02 * static_cast<double>(window % 4));
  }
  EXPECT_TRUE(steady);
  EXPECT_GE(watch.windows(), SteadyWatch::kWindowsMin);
}

TEST(SteadyWatchTest, GivesUpOnALoadThatNeverSettles) {
  SteadyWatch watch;
  size_t window = 0;
  while (!watch.Add(0.02 * static_cast<double>(++window))) ASSERT_LT(window, 1000U);
  EXPECT_EQ(watch.windows(), SteadyWatch::kWindowsMax);
}

}  // namespace
}  // namespace ebb::demo
