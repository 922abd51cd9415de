// The power fails at every write of every scenario, on both tiers and in the metadata; what comes
// back is judged by an oracle (crash_lives.h).
//
//   EBB_CRASH_SEEDS=N        seeds to run, instead of the standard number (./dev soak)
//   EBB_CRASH_FIRST_SEED=N   the first of them
//   EBB_CRASH_CASE=drain:17:203 power_cut_test --gtest_filter=*OneCase*     one case again
#include <cstdlib>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tests/storage-backend/crash/crash_lives.h"

namespace ebb::storage {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* asked = std::getenv(name);
  return asked == nullptr ? standard : std::strtoull(asked, nullptr, 10);
}

// Each seed makes at least so many cuts that the standard number makes 10,000.
constexpr uint64_t kStandardSeeds = 40;
constexpr uint64_t kCutsASeedMin = 250;

std::string HowToRepeat(const CrashCase& crash_case) {
  return fmt::format("repeat with: EBB_CRASH_CASE={} power_cut_test --gtest_filter=*OneCase*",
                     NameOf(crash_case));
}

// Runs one scenario uncut, then cut at each of its writes; the number of cuts.
uint64_t CutEverywhere(Scenario scenario, uint64_t seed) {
  CrashCase crash_case{.scenario = scenario, .seed = seed};
  const CrashOutcome uncut = RunCrashCase(crash_case);
  EXPECT_EQ(uncut.fault, "") << HowToRepeat(crash_case);
  uint64_t cuts = 0;
  crash_case.cut = uncut.writes_before + 1;
  for (; crash_case.cut <= uncut.writes_after; ++crash_case.cut, ++cuts) {
    const CrashOutcome outcome = RunCrashCase(crash_case);
    EXPECT_EQ(outcome.fault, "") << HowToRepeat(crash_case);
    EXPECT_GT(outcome.power_cuts, 0U) << HowToRepeat(crash_case);
    if (::testing::Test::HasFailure()) break;
  }
  return cuts;
}

class PowerCutTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(PowerCutTest, LosesNothingThatWasFlushed) {
  uint64_t cuts = 0;
  for (const Scenario scenario : kScenarios) {
    cuts += CutEverywhere(scenario, GetParam());
    ASSERT_FALSE(HasFailure());
  }

  RecordProperty("cuts", static_cast<int>(cuts));
  EXPECT_GE(cuts, kCutsASeedMin);
}

INSTANTIATE_TEST_SUITE_P(Seed, PowerCutTest,
                         ::testing::Range(FromEnvironment("EBB_CRASH_FIRST_SEED", 1),
                                          FromEnvironment("EBB_CRASH_FIRST_SEED", 1) +
                                              FromEnvironment("EBB_CRASH_SEEDS", kStandardSeeds)));
static_assert(kStandardSeeds * kCutsASeedMin >= 10'000);

// Goal: a fault that was seen once can be seen again. Method: every scenario, cut somewhere, twice.
TEST(CrashCaseTest, SameSeedGivesTheSameLogOfTransfers) {
  std::set<uint64_t> hashes;
  for (const Scenario scenario : kScenarios) {
    for (const uint64_t seed : {3, 5}) {
      CrashCase crash_case{.scenario = scenario, .seed = seed};
      const CrashOutcome uncut = RunCrashCase(crash_case);
      crash_case.cut = (uncut.writes_before + uncut.writes_after + 1) / 2;

      const CrashOutcome first = RunCrashCase(crash_case);
      const CrashOutcome second = RunCrashCase(crash_case);

      EXPECT_EQ(first.log_hash, second.log_hash) << HowToRepeat(crash_case);
      hashes.insert(first.log_hash);
    }
  }
  EXPECT_EQ(hashes.size(), 2 * kScenarios.size()) << "different cases share a hash";
}

// Each scenario interrupts what it is named after: it writes, and not always the same.
TEST(CrashCaseTest, EveryScenarioHasWritesToCut) {
  for (const Scenario scenario : kScenarios) {
    const CrashCase crash_case{.scenario = scenario, .seed = 2};
    const CrashOutcome uncut = RunCrashCase(crash_case);
    EXPECT_GT(uncut.writes_after, uncut.writes_before + 3) << NameOf(crash_case);
  }
}

TEST(CrashCaseTest, NamesComeBack) {
  const auto parsed = ParseCrashCase("drain:17:203");

  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(NameOf(*parsed), "drain:17:203");
  for (const char* wrong : {"", "drain", "drain:1", "drain:1:", "drain:1:2x", "nap:1:2"}) {
    EXPECT_FALSE(ParseCrashCase(wrong).has_value()) << wrong;
  }
}

TEST(CrashCaseTest, OneCaseFromTheEnvironment) {
  const char* name = std::getenv("EBB_CRASH_CASE");
  if (name == nullptr) GTEST_SKIP() << "EBB_CRASH_CASE names none";
  const auto crash_case = ParseCrashCase(name);
  ASSERT_TRUE(crash_case.has_value()) << name;

  const CrashOutcome outcome = RunCrashCase(*crash_case);

  EXPECT_EQ(outcome.fault, "");
  fmt::print("{}: {} writes before, {} after, {} power cuts, hash of the I/O log {:016x}\n", name,
             outcome.writes_before, outcome.writes_after, outcome.power_cuts, outcome.log_hash);
}

}  // namespace
}  // namespace ebb::storage
