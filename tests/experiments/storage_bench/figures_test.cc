#include "experiments/storage_bench/figures.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ebb::storage_bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Samples Make(const std::map<std::string, std::vector<double>>& series) {
  Samples samples;
  for (const auto& [name, values] : series) {
    for (const double value : values) samples.Add(name, value);
  }
  return samples;
}

TEST(FiguresTest, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Median(std::vector<double>{5, 1, 3}), 3);
  EXPECT_EQ(Median(std::vector<double>{4, 1, 3, 2}), 2.5);
}

TEST(FiguresTest, ARateIsItsMedianWithItsRange) {
  const FigureSpec spec{"rate", "ops", Direction::kAtLeast, 10, "a", {}, ""};

  const Figure figure = Evaluate(spec, Make({{"a", {12, 8, 11}}}));

  EXPECT_TRUE(figure.measured);
  EXPECT_TRUE(figure.holds);
  EXPECT_EQ(figure.value, 11);
  EXPECT_EQ(figure.low, 8);
  EXPECT_EQ(figure.high, 12);
}

TEST(FiguresTest, BarsPointBothWaysAndIncludeTheirValue) {
  const Samples samples = Make({{"a", {10}}});
  FigureSpec spec{"rate", "ops", Direction::kAtLeast, 10, "a", {}, ""};

  EXPECT_TRUE(Evaluate(spec, samples).holds);
  spec.bar = 10.1;
  EXPECT_FALSE(Evaluate(spec, samples).holds);
  spec.direction = Direction::kAtMost;
  EXPECT_TRUE(Evaluate(spec, samples).holds);
  spec.bar = 9.9;
  EXPECT_FALSE(Evaluate(spec, samples).holds);
}

TEST(FiguresTest, ABarMayHaveTwoSides) {
  const FigureSpec spec{"mean", "index", Direction::kNear, 100, "a", {}, "", 1};

  EXPECT_TRUE(Evaluate(spec, Make({{"a", {101}}})).holds);
  EXPECT_TRUE(Evaluate(spec, Make({{"a", {99}}})).holds);
  EXPECT_FALSE(Evaluate(spec, Make({{"a", {101.1}}})).holds);
  EXPECT_FALSE(Evaluate(spec, Make({{"a", {98.9}}})).holds);
}

TEST(FiguresTest, ARatioIsTakenInsideEachRepeatAgainstTheBetterPeer) {
  const FigureSpec spec{"ratio", "ratio", Direction::kAtLeast, 1, "own", {"slow", "fast"}, ""};
  const Samples samples =
      Make({{"own", {10, 100, 30}}, {"slow", {1, 1, 200}}, {"fast", {20, 100, 30}}});

  const Figure figure = Evaluate(spec, samples);

  EXPECT_EQ(figure.peer, "fast");
  EXPECT_EQ(figure.value, 1);  // of 0.5, 1, 1: the machine's good and bad minutes cancel out
  EXPECT_EQ(figure.low, 0.5);
}

TEST(FiguresTest, WhatWasNotMeasuredDoesNotHold) {
  const FigureSpec spec{"ratio", "ratio", Direction::kAtMost, 1, "own", {"peer"}, ""};

  EXPECT_FALSE(Evaluate(spec, Samples()).holds);
  EXPECT_FALSE(Evaluate(spec, Make({{"own", {1}}})).holds);
  EXPECT_FALSE(Evaluate(spec, Make({{"own", {1, 1}}, {"peer", {5}}})).holds);
}

TEST(FiguresTest, TheTableHasEveryFigureOnceAndSaysHowItWasMeasured) {
  std::set<std::string> names;
  for (const FigureSpec& spec : FigureTable()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_GT(spec.bar, 0) << spec.name;
    EXPECT_FALSE(spec.series.empty() || spec.how.empty() || spec.unit.empty()) << spec.name;
  }
  EXPECT_EQ(names.size(), 18u);
}

TEST(FiguresTest, ReportsNameValueBarAndInterval) {
  const FigureSpec spec{"rate", "ops", Direction::kAtLeast, 10, "a", {}, "how"};
  const FigureSpec missing{"gone", "ops", Direction::kAtLeast, 10, "b", {}, "how"};
  const Samples samples = Make({{"a", {8, 9}}});
  const std::vector<Figure> figures = {Evaluate(spec, samples), Evaluate(missing, samples)};

  const nlohmann::json json = ToJson(figures, samples);

  EXPECT_EQ(json["figures"][0]["name"], "rate");
  EXPECT_EQ(json["figures"][0]["value"], 8.5);
  EXPECT_EQ(json["figures"][0]["bar"], ">= 10");
  EXPECT_EQ(json["figures"][0]["holds"], false);
  EXPECT_EQ(json["figures"][0]["interval"], nlohmann::json({8, 9}));
  EXPECT_TRUE(json["figures"][1]["value"].is_null());
  EXPECT_EQ(json["series"]["a"]["repeats"], nlohmann::json({8, 9}));
  EXPECT_THAT(FormatTable(figures, samples), HasSubstr("DOES NOT HOLD"));
  EXPECT_THAT(FormatTable(figures, samples), Not(HasSubstr("gone")));
}

}  // namespace
}  // namespace ebb::storage_bench
