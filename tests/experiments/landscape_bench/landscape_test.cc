// A small landscape from end to end.
#include "experiments/landscape_bench/landscape.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "experiments/landscape_bench/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::landscape_bench {
namespace {

using ::testing::HasSubstr;

Landscape Measure(int threads) {
  const auto landscape = MeasureLandscape({.settings = 8,
                                           .divisor = 4,
                                           .block_operations = 40'000,
                                           .finalists = 1,
                                           .everywhere = 1,
                                           .select_seeds = 1,
                                           .threads = threads,
                                           .only = "server"});
  EXPECT_TRUE(landscape.ok()) << landscape.status();
  return *landscape;
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

const Landscape& Small() {
  static const Landscape landscape = Measure(2);
  return landscape;
}

TEST(LandscapeTest, HasEveryCellAndIsTheSameOnAnyNumberOfThreads) {
  const Landscape one = Measure(1);
  const Landscape& two = Small();

  ASSERT_EQ(one.families.size(), 2U);
  ASSERT_EQ(one.cells.size(), one.families.size() * Profiles().size());
  EXPECT_EQ(one.failed_runs, 0U);
  EXPECT_EQ(CellsCsv(one), CellsCsv(two));
  EXPECT_EQ(LandscapeText(one), LandscapeText(two));
  for (const CellResult& cell : one.cells) {
    EXPECT_GT(cell.cell.ops_per_s, 1);
    EXPECT_GE(cell.cell.seconds, 39.9);
    const GoalResult& balanced = cell.goals[kBalanced];
    EXPECT_FALSE(std::isnan(balanced.gain));
    EXPECT_LT(balanced.best, one.settings.size());
  }
}

TEST(LandscapeTest, GoalsWithoutTrafficAreLeftOut) {
  const Landscape& seen = Small();
  size_t without_writes = 0;
  for (const CellResult& cell : seen.cells) {
    const bool reads_only = seen.families[cell.cell.family] == "web-server";
    EXPECT_EQ(std::isnan(cell.goals[1].gain), reads_only) << seen.families[cell.cell.family];
    without_writes += reads_only ? 1 : 0;
  }
  EXPECT_EQ(without_writes, Profiles().size());
}

TEST(LandscapeTest, ReportsAllOfIt) {
  const Landscape& seen = Small();
  const size_t goals = 3 * seen.cells.size() - Profiles().size();  // one family only reads

  EXPECT_EQ(Lines(CellsCsv(seen)), 1 + goals);
  EXPECT_EQ(Lines(KnobsCsv(seen)), 1 + goals * seen.space.size());
  EXPECT_THAT(LandscapeText(seen), HasSubstr("nearest to the best everywhere"));
  const storage_bench::Samples samples = LandscapeSamples(seen);
  for (const storage_bench::FigureSpec& figure : LandscapeFigures()) {
    EXPECT_EQ(samples.Of(figure.series).size(), 1U) << figure.name;
  }
  // Nobody loses against himself.
  for (const auto& goal : seen.regrets) {
    for (const GainTable& table : goal) {
      for (size_t i = 0; i < table.size(); ++i) {
        EXPECT_TRUE(std::isnan(table[i][i]) || table[i][i] == 0);
      }
    }
  }
}

TEST(LandscapeTest, NeedsSettings) {
  LandscapeOptions options;
  options.settings = 0;
  EXPECT_FALSE(MeasureLandscape(options).ok());
}

}  // namespace
}  // namespace ebb::landscape_bench
