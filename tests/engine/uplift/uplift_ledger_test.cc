#include "engine/uplift/uplift_ledger.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::engine {
namespace {

constexpr int64_t kHourMs = 3600 * 1000;
constexpr agents::GoalKind kGoal = agents::GoalKind::kRead;

// A block that says the tuned setting is `log_uplift` better in everything about reads.
UpliftBlock Block(double log_uplift, int64_t at_ms = 0) {
  UpliftBlock block;
  block.from_ms = at_ms;
  block.to_ms = at_ms + 30'000;
  block.default_windows = 10;
  block.tuned_windows = 20;
  block.has_read = true;
  block.read_share = 1;
  for (size_t k = 0; k < kComponentsPerKind; ++k) {
    block.log_ratio[k] = ComponentSign(k) * log_uplift;
  }
  return block;
}

TEST(UpliftLedgerTest, SaysHonestlyWhenThereIsTooLittle) {
  UpliftLedger ledger;
  for (int i = 0; i < 4; ++i) ledger.Add(Block(0.1));

  const UpliftReport report = ledger.Report(kGoal, 0, 24);

  EXPECT_FALSE(report.since_attach.effect.has_value());
  EXPECT_EQ(report.since_attach.missing, "not enough holdback yet: 4 of 5 blocks");
  EXPECT_EQ(report.since_attach.blocks, 4U);
}

TEST(UpliftLedgerTest, MeanAndStudentIntervalOfTheBlocks) {
  UpliftLedger ledger;
  for (const double value : {0.08, 0.10, 0.12, 0.09, 0.11}) ledger.Add(Block(value, 1000));

  const UpliftSpan span = ledger.Report(kGoal, 2000, 24).since_attach;

  ASSERT_TRUE(span.effect.has_value());
  const double half = 2.776 * std::sqrt(0.001 / 4 / 5);  // t of four degrees
  EXPECT_NEAR(span.effect->mean, std::expm1(0.10), 1e-6);
  EXPECT_NEAR(span.effect->low, std::expm1(0.10 - half), 1e-3);
  EXPECT_NEAR(span.effect->high, std::expm1(0.10 + half), 1e-3);
  EXPECT_EQ(span.default_windows, 50U);
  EXPECT_EQ(span.tuned_windows, 100U);
}

TEST(UpliftLedgerTest, TheLastHoursAreThoseOfTheirBlocks) {
  UpliftLedger ledger;
  for (int i = 0; i < 10; ++i) ledger.Add(Block(0.3 + 0.001 * i, i * kHourMs));
  for (int i = 10; i < 20; ++i) ledger.Add(Block(0.1 + 0.001 * i, i * kHourMs));

  const UpliftReport report = ledger.Report(kGoal, 20 * kHourMs, 10);

  EXPECT_NEAR(report.recent.effect->mean, std::expm1(0.1145), 1e-4);
  EXPECT_NEAR(report.since_attach.effect->mean, std::expm1(0.2095), 1e-4);
  EXPECT_EQ(report.recent.blocks, 10U);
  EXPECT_EQ(report.recent.from_ms, 10 * kHourMs);
}

TEST(UpliftLedgerTest, BlocksThatAreLikeTheirNeighboursWidenTheInterval) {
  UpliftLedger shuffled;
  UpliftLedger wandering;
  for (int i = 0; i < 64; ++i) {
    const double value = std::sin(2 * M_PI * i / 32);
    wandering.Add(Block(0.1 + 0.02 * value));
    shuffled.Add(Block(0.1 + 0.02 * std::sin(2 * M_PI * (i * 13 % 64) / 32)));
  }
  const Effect a = *shuffled.Report(kGoal, 0, 24).since_attach.effect;
  const Effect b = *wandering.Report(kGoal, 0, 24).since_attach.effect;

  EXPECT_NEAR(a.mean, b.mean, 1e-9);
  EXPECT_GT(b.high - b.low, 2.5 * (a.high - a.low));
}

TEST(UpliftLedgerTest, MergingOldBlocksKeepsMeanAndInterval) {
  Rng rng(4);
  UpliftLedger ledger;
  double sum = 0;
  constexpr int kBlocks = 5000;
  for (int i = 0; i < kBlocks; ++i) {
    const double value = 0.1 + 0.05 * rng.Normal();
    sum += value;
    ledger.Add(Block(value, i));
  }

  const UpliftSpan span = ledger.Report(kGoal, 0, 24).since_attach;

  EXPECT_LE(ledger.entries().size(), UpliftLedger::kEntriesMax);
  EXPECT_EQ(span.blocks, 5000U);
  EXPECT_EQ(span.default_windows, 50'000U);
  EXPECT_NEAR(span.effect->mean, std::expm1(sum / kBlocks), 1e-9);
  const double half = 1.96 * 0.05 / std::sqrt(kBlocks);
  EXPECT_NEAR((span.effect->high - span.effect->low) / 2, std::exp(0.1) * half, 0.15 * half);
}

TEST(UpliftLedgerTest, SurvivesSavingAndRefusesRubbish) {
  UpliftLedger ledger;
  for (int i = 0; i < 7; ++i) ledger.Add(Block(0.1 + 0.01 * i, i));
  ledger.NoteDropped("the load shifted");

  UpliftLedger other;
  ASSERT_TRUE(other.Load(ledger.Save()).ok());

  EXPECT_EQ(other.Save(), ledger.Save());
  EXPECT_EQ(other.Report(kGoal, 0, 24).last_dropped, "the load shifted");
  EXPECT_EQ(other.Report(kGoal, 0, 24).dropped_blocks, 1U);
  EXPECT_FALSE(other.Load("{\"blocks\":[{}],\"dropped\":0,\"last_dropped\":\"\"}").ok());
  EXPECT_EQ(other.entries().size(), 7U);
}

}  // namespace
}  // namespace ebb::engine
