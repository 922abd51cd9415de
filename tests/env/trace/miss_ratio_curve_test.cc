// The curve against an LRU cache that is simulated in full.
#include "env/trace/miss_ratio_curve.h"

#include <cmath>
#include <list>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

double SimulatedMissRatio(const std::vector<uint64_t>& accesses, size_t cache_blocks) {
  std::list<uint64_t> order;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places;
  uint64_t misses = 0;
  for (const uint64_t key : accesses) {
    const auto entry = places.find(key);
    if (entry != places.end()) {
      order.splice(order.begin(), order, entry->second);
      continue;
    }
    ++misses;
    order.push_front(key);
    places[key] = order.begin();
    if (order.size() > cache_blocks) {
      places.erase(order.back());
      order.pop_back();
    }
  }
  return static_cast<double>(misses) / static_cast<double>(accesses.size());
}

// Low numbers are hot: the density falls like that of a Zipf law.
std::vector<uint64_t> SkewedAccesses(size_t count, double blocks, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint64_t> accesses;
  for (size_t i = 0; i < count; ++i) {
    accesses.push_back(static_cast<uint64_t>(std::pow(blocks, rng.Uniform())));
  }
  return accesses;
}

TEST(MissRatioCurveTest, IsExactWhileTheBlocksAreFew) {
  const std::vector<uint64_t> accesses = SkewedAccesses(100'000, 3000, 1);
  MissRatioCurve curve(/*samples_max=*/4096);
  for (const uint64_t key : accesses) curve.Access(key);

  for (const size_t blocks : {1, 2, 7, 32, 63}) {
    EXPECT_DOUBLE_EQ(curve.MissRatio(blocks), SimulatedMissRatio(accesses, blocks)) << blocks;
  }
  // Larger distances are in buckets of 1/64.
  for (const size_t blocks : {256, 1024, 2048, 4096}) {
    EXPECT_NEAR(curve.MissRatio(blocks), SimulatedMissRatio(accesses, blocks), 0.005) << blocks;
  }
}

TEST(MissRatioCurveTest, IsCloseWhenSampled) {
  const std::vector<uint64_t> accesses = SkewedAccesses(400'000, 100'000, 2);
  MissRatioCurve curve(/*samples_max=*/8192);
  for (const uint64_t key : accesses) curve.Access(key);

  for (const size_t blocks : {1024, 4096, 16'384, 65'536}) {
    EXPECT_NEAR(curve.MissRatio(blocks), SimulatedMissRatio(accesses, blocks), 0.02) << blocks;
  }
}

TEST(MissRatioCurveTest, ALoopMissesUntilItFits) {
  MissRatioCurve curve;
  for (int round = 0; round < 10; ++round) {
    for (uint64_t block = 0; block < 1000; ++block) curve.Access(block);
  }
  EXPECT_DOUBLE_EQ(curve.MissRatio(900), 1);
  EXPECT_DOUBLE_EQ(curve.MissRatio(1024), 0.1);
  const std::vector<MissRatioCurve::Point> points = curve.Points(256);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points.back().blocks, 1024U);
  EXPECT_DOUBLE_EQ(points.back().miss_ratio, 0.1);
}

TEST(MissRatioCurveTest, NothingIsAllMisses) {
  MissRatioCurve curve;
  EXPECT_EQ(curve.MissRatio(1), 1);
  EXPECT_TRUE(curve.Points().empty());
}

}  // namespace
}  // namespace ebb::env
