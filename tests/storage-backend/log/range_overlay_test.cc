#include "storage-backend/log/range_overlay.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::storage {
namespace {

TEST(RangeOverlayTest, ALaterRangeReplacesWhatItCovers) {
  RangeOverlay overlay;
  overlay.Add({.first = 10, .end = 20, .order = 1});
  overlay.Add({.first = 15, .end = 30, .order = 2});

  EXPECT_EQ(overlay.Find(9), 0U);
  EXPECT_EQ(overlay.Find(10), 1U);
  EXPECT_EQ(overlay.Find(14), 1U);
  EXPECT_EQ(overlay.Find(15), 2U);
  EXPECT_EQ(overlay.Find(29), 2U);
  EXPECT_EQ(overlay.Find(30), 0U);
  EXPECT_EQ(overlay.oldest_order(), 1U);
}

TEST(RangeOverlayTest, CutLeavesNewerRangesAlone) {
  RangeOverlay overlay;
  overlay.Add({.first = 0, .end = 10, .order = 5});
  overlay.Add({.first = 10, .end = 20, .order = 9});

  overlay.Cut(0, 20, /*up_to_order=*/5);

  EXPECT_EQ(overlay.Collect(~uint64_t{0}, 10), (std::vector<OverlayRange>{{10, 20, 9}}));
}

// Goal: prove the interval arithmetic against a model of one order a block.
TEST(RangeOverlayTest, AgreesWithAModelUnderRandomUse) {
  constexpr uint64_t kBlocks = 64;
  Rng rng(11);
  for (int round = 0; round < 200; ++round) {
    RangeOverlay overlay;
    std::vector<uint64_t> model(kBlocks, 0);
    for (uint64_t step = 1; step < 60; ++step) {
      const uint64_t first = rng.Below(kBlocks);
      const uint64_t end = first + 1 + rng.Below(kBlocks - first);
      if (rng.Chance(0.5)) {
        overlay.Add({.first = first, .end = end, .order = step});
        std::fill(model.begin() + static_cast<ptrdiff_t>(first),
                  model.begin() + static_cast<ptrdiff_t>(end), step);
      } else {
        const uint64_t up_to = rng.Below(step + 1);
        overlay.Cut(first, end, up_to);
        for (uint64_t b = first; b < end; ++b) {
          if (model[b] <= up_to) model[b] = 0;
        }
      }
      uint64_t oldest = ~uint64_t{0};
      for (uint64_t b = 0; b < kBlocks; ++b) {
        ASSERT_EQ(overlay.Find(b), model[b]) << "block " << b << " round " << round;
        if (model[b] != 0) oldest = std::min(oldest, model[b]);
      }
      ASSERT_EQ(overlay.oldest_order(), oldest);
      ASSERT_EQ(overlay.empty(), oldest == ~uint64_t{0});
    }
  }
}

}  // namespace
}  // namespace ebb::storage
