// Power cuts and faults at every point of a change: the old state or the new one, both intact.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 220;

// One step of a scenario: what it does to the tier and to the model.
struct Step {
  std::function<absl::Status(TierHarness&)> run;
  std::function<void(Model&)> apply;
};

Step StoreStep(Model changes, StoreOptions options) {
  return {[changes, options](TierHarness& harness) { return harness.Store(changes, options); },
          [changes](Model& model) { Apply(changes, model); }};
}

Step RemoveStep(uint64_t first, uint64_t count) {
  return {[=](TierHarness& harness) { return harness.tier->Remove(first, count); },
          [=](Model& model) {
            for (uint64_t block = first; block < first + count; ++block) model.erase(block);
          }};
}

Step CompactStep() {
  return {[](TierHarness& harness) {
            absl::StatusOr<bool> moved = true;
            while (moved.ok() && *moved) moved = harness.tier->CompactStep();
            return moved.status();
          },
          [](Model&) {}};
}

// Small, but with every kind of change: sharing, compressed and raw units, overwrites, dead
// segments, a scattered tier that is compacted.
std::vector<Step> Scenario(uint64_t seed) {
  Rng rng(seed);
  std::vector<Step> steps;
  const auto options = [&]() -> StoreOptions {
    return {.compression = static_cast<Compression>(rng.Below(4)),
            .unit_bytes = static_cast<uint32_t>(4096u << rng.Below(4)),
            .dedup = static_cast<Dedup>(rng.Below(3)),
            .parallelism = static_cast<int>(1 + rng.Below(4)),
            .threads = static_cast<int>(1 + rng.Below(2))};
  };
  for (int i = 0; i < 12; ++i) {
    Model batch;
    const uint64_t count = 10 + rng.Below(120);
    for (uint64_t n = 0; n < count; ++n) {
      batch[rng.Below(kBlocks)] = {rng.Chance(0.5) ? Content::kText : Content::kRandom,
                                   rng.Below(100)};
    }
    steps.push_back(StoreStep(batch, options()));
    if (i % 4 == 1) {  // a run that was stored before, so that sampling walks along it
      StoreOptions sampled = options();
      sampled.dedup = Dedup::kSampled;
      steps.push_back(
          StoreStep(Blocks(rng.Below(kBlocks - 50), 50, Content::kRandom, 1000), sampled));
    }
    if (i % 5 == 2) {
      for (uint64_t block = 0; block < kBlocks; block += 10) {
        steps.push_back(RemoveStep(block, 1 + rng.Below(9)));
      }
      steps.push_back(CompactStep());
    }
  }
  steps.push_back(CompactStep());
  return steps;
}

// Runs the scenario with `arm` called before it; after the first failing step restarts and expects
// the state before or after that step, then runs the rest and restarts again. Returns whether a
// step failed. `crash_seed` decides what survives of un-flushed writes.
bool RunWithFault(uint64_t seed, uint64_t crash_seed,
                  const std::function<void(TierHarness&)>& arm) {
  TierHarness harness({2 << 20, 1536 << 10}, seed);
  EXPECT_TRUE(harness.Open().ok());
  arm(harness);
  Model model;
  bool failed = false;
  for (const Step& step : Scenario(seed)) {
    Model after = model;
    step.apply(after);
    const absl::Status status = step.run(harness);
    if (!status.ok()) {
      failed = true;
      const absl::Status opened = harness.CrashAndOpen(crash_seed);
      EXPECT_TRUE(opened.ok()) << opened;
      if (!opened.ok()) return failed;
      const std::string old_differs = harness.Compare(model, kBlocks);
      if (!old_differs.empty()) {
        EXPECT_EQ(harness.Compare(after, kBlocks), "") << "and the old state: " << old_differs;
      }
      EXPECT_EQ(harness.Faults(), "");
      const absl::Status again = step.run(harness);
      EXPECT_TRUE(again.ok()) << again;
    }
    model = after;
  }
  const absl::Status opened = harness.CrashAndOpen(crash_seed + 1);
  EXPECT_TRUE(opened.ok()) << opened;
  EXPECT_EQ(harness.Compare(model, kBlocks), "");
  EXPECT_EQ(harness.Faults(), "");
  return failed;
}

// Writes and discards of the scenario when nothing goes wrong.
uint64_t CountWrites(uint64_t seed) {
  TierHarness harness({2 << 20, 1536 << 10}, seed);
  EXPECT_TRUE(harness.Open().ok());
  for (const Step& step : Scenario(seed)) EXPECT_TRUE(step.run(harness).ok());
  return harness.power->writes();
}

// Each write and discard of the scenario is cut in turn, also those that only tidy up after a
// commit.
TEST(TierCrashTest, PowerCutAtEveryWriteLeavesOldOrNew) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const uint64_t writes = CountWrites(seed);
    ASSERT_GT(writes, 15u);
    for (uint64_t cut = 1; cut <= writes; ++cut) {
      RunWithFault(seed, seed * 1000 + cut,
                   [&](TierHarness& harness) { harness.power->CutAtWrite(cut); });
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", cut at write " << cut;
    }
  }
}

TEST(TierCrashTest, PowerCutBetweenStepsKeepsWhatWasReported) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    TierHarness harness({2 << 20, 1536 << 10}, seed);
    ASSERT_TRUE(harness.Open().ok());
    Model model;
    for (const Step& step : Scenario(seed)) {
      ASSERT_TRUE(step.run(harness).ok());
      step.apply(model);
      ASSERT_TRUE(harness.CrashAndOpen(seed).ok());
      ASSERT_EQ(harness.Compare(model, kBlocks), "") << "seed " << seed;
      ASSERT_EQ(harness.Faults(), "") << "seed " << seed;
    }
  }
}

TEST(TierCrashTest, FailedCommitAtEveryPointLeavesOldOrNew) {
  uint64_t commits = 0;
  while (RunWithFault(
      77, commits, [&](TierHarness& harness) { harness.metadata->FailCommitFrom(commits + 1); })) {
    ++commits;
    ASSERT_LT(commits, 1000u);
    if (HasFailure()) FAIL() << "commit " << commits;
  }
  EXPECT_GT(commits, 20u);
}

// Goal: a fault of the device fails the batch whole; nothing that a reader sees has changed,
// without any restart. Method: fail the n-th write or flush for n = 1, 2, 3, ... until the batch
// passes.
TEST(TierCrashTest, DeviceFaultFailsTheBatchWhole) {
  for (const Io::Kind kind : {Io::Kind::kWrite, Io::Kind::kFlush}) {
    for (const FaultyDisk::Fault fault :
         {FaultyDisk::Fault::kIoError, FaultyDisk::Fault::kNoSpace, FaultyDisk::Fault::kShort}) {
      if (kind == Io::Kind::kFlush && fault == FaultyDisk::Fault::kShort) continue;
      uint64_t nth = 0;
      bool failed = true;
      while (failed) {
        TierHarness harness({4 << 20});
        ASSERT_TRUE(harness.Open().ok());
        Model model = Blocks(0, 200, Content::kRandom, 1);
        ASSERT_TRUE(harness.Store(model, {.dedup = Dedup::kOn}).ok());
        const CapacityUsage before = harness.tier->Usage();
        harness.disks[0]->FailNth(kind, ++nth, fault);
        const Model changes = Blocks(50, 200, Content::kText, 1);

        const absl::Status status = harness.Store(changes, {.dedup = Dedup::kOn, .parallelism = 3});

        failed = !status.ok();
        if (!failed) Apply(changes, model);
        EXPECT_EQ(harness.Compare(model, 250), "") << "fault " << nth;
        EXPECT_EQ(harness.Faults(), "");
        if (failed) {
          EXPECT_EQ(harness.tier->Usage().physical_bytes, before.physical_bytes);
          EXPECT_EQ(harness.tier->FreeBytes(), before.free_bytes);
          // The disk works again, unless its flush failed: then it is fenced until it is reopened.
          const absl::Status again = harness.Store(changes, {.dedup = Dedup::kOn});
          EXPECT_EQ(again.ok(), kind == Io::Kind::kWrite) << again;
        }
        ASSERT_LT(nth, 100u);
      }
      EXPECT_GT(nth, 1u);
    }
  }
}

TEST(TierCrashTest, AfterAFailedCommitNothingChangesUntilReopen) {
  TierHarness harness({4 << 20});
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 50, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, {}).ok());
  harness.metadata->FailCommitFrom(1);
  EXPECT_FALSE(harness.Store(Blocks(0, 50, Content::kRandom, 99), {}).ok());
  harness.metadata->FailCommitFrom(0);

  EXPECT_FALSE(harness.Store(Blocks(0, 50, Content::kRandom, 99), {}).ok());
  EXPECT_FALSE(harness.tier->Remove(0, 1).ok());
  EXPECT_FALSE(harness.tier->CompactStep().ok());
  EXPECT_EQ(harness.Compare(model, 50), "");

  ASSERT_TRUE(harness.Open().ok());
  EXPECT_EQ(harness.Compare(model, 50), "");
  EXPECT_TRUE(harness.tier->Remove(0, 1).ok());
}

// Goal: the same seed does the same I/O, so that a failing seed can be looked at again.
TEST(TierCrashTest, SameSeedSameIo) {
  std::vector<uint64_t> hashes;
  for (int run = 0; run < 2; ++run) {
    TierHarness harness({2 << 20, 1536 << 10}, 5);
    ASSERT_TRUE(harness.Open().ok());
    for (const Step& step : Scenario(5)) ASSERT_TRUE(step.run(harness).ok());
    hashes.push_back(harness.disks[0]->log_hash() * 31 + harness.disks[1]->log_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace ebb::storage
