// The power fails at every write of a workload, on both tiers and in the metadata, also while the
// node starts, stops, drains or moves its tail; what comes back is judged by an oracle.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tests/storage-backend/crash/crash_workload.h"

namespace ebb::storage {
namespace {

int SeedCount(int standard) {
  const char* asked = std::getenv("EBB_CRASH_SEEDS");
  return asked == nullptr ? standard : std::atoi(asked);
}

constexpr uint64_t kBlocks = 128;

// One life after another over the same disks: the first is cut at write `cut`, the later ones at
// places the seed chooses, because a recovery that was itself cut is the harder case.
std::string LivesOf(uint64_t seed, uint64_t cut, int steps, uint64_t* writes, uint64_t* hash) {
  CrashNode node({.seed = seed, .volume_blocks = kBlocks});
  CrashWorkload workload(node, seed, kBlocks);
  Rng rng(seed * 1'000'003 + cut);
  if (cut != 0) node.power().CutAtWrite(cut);
  std::string fault = workload.Recover();
  if (fault.empty() && node.is_open()) fault = workload.Run(steps);
  *writes = node.power().writes();
  constexpr int kLivesMax = 4;
  for (int life = 1; fault.empty() && cut != 0 && life < kLivesMax; ++life) {
    node.Reboot(rng.Next());
    if (life + 1 < kLivesMax && rng.Chance(0.5)) {
      node.power().CutAtWrite(node.power().writes() + 1 + rng.Below(60));
    }
    fault = workload.Recover();
    if (fault.empty() && node.is_open()) fault = workload.Run(20);
    if (!fault.empty()) fault = fmt::format("life {}: {}", life, fault);
  }
  if (fault.empty()) {
    if (!node.power().on()) {
      node.Reboot(rng.Next());
      fault = workload.Recover();
    }
    if (fault.empty() && !node.volume().Drain(nullptr).ok()) fault = "final drain failed";
    if (fault.empty()) fault = workload.Verify();
    if (fault.empty()) {
      const auto faults = node.CheckCapacity();
      if (!faults.empty()) fault = "capacity check: " + faults.front();
    }
  }
  *hash = node.log_hash();
  return fault;
}

TEST(PowerCutTest, EveryWriteIndexOfAWorkload) {
  constexpr int kSteps = 60;
  uint64_t cuts = 0;
  for (int i = 1; i <= SeedCount(12); ++i) {
    const auto seed = static_cast<uint64_t>(i);
    uint64_t writes = 0;
    uint64_t hash = 0;
    std::string fault = LivesOf(seed, 0, kSteps, &writes, &hash);
    ASSERT_EQ(fault, "") << "seed " << seed << ", no cut";
    for (uint64_t cut = 1; cut <= writes; ++cut, ++cuts) {
      uint64_t unused = 0;
      fault = LivesOf(seed, cut, kSteps, &unused, &hash);
      ASSERT_EQ(fault, "") << "seed " << seed << ", cut at write " << cut << " of " << writes;
    }
  }
  RecordProperty("cuts", static_cast<int>(cuts));
  fmt::print("{} power cuts\n", cuts);
}

TEST(PowerCutTest, SameSeedGivesTheSameLogOfTransfers) {
  uint64_t writes = 0;
  uint64_t first = 0;
  uint64_t second = 0;

  EXPECT_EQ(LivesOf(5, 17, 60, &writes, &first), "");
  EXPECT_EQ(LivesOf(5, 17, 60, &writes, &second), "");

  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace ebb::storage
