#include "engine/context/context_tracker.h"

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

constexpr uint32_t kSettle = 5;

LoadFeatures Load(double size, bool closed_loop = true) {
  LoadFeatures features;
  features.closed_loop = closed_loop;
  features.value = {size, 3, 12, 12, 0};
  return features;
}

// Runs `windows` of it; whether the context became known.
bool RunWindows(ContextTracker& tracker, const LoadFeatures& load, uint32_t windows) {
  bool known = false;
  for (uint32_t i = 0; i < windows; ++i) known = tracker.Next(load, "disk", 1000) || known;
  return known;
}

Change Kept(const std::string& context, const std::string& actor = "agent:x") {
  Change change;
  change.id = 5;
  change.actor = actor;
  change.goal = "read";
  change.context = context;
  change.measured = Effect{0.1, 0.05, 0.15};
  change.verdict = Verdict::kKeep;
  return change;
}

TEST(ContextTrackerTest, ALoadGetsItsNameAfterEnoughWindowsAndKeepsItWhenItComesBack) {
  ContextTracker tracker(kSettle);

  EXPECT_FALSE(RunWindows(tracker, Load(2), kSettle - 1));
  EXPECT_EQ(tracker.id(), "");
  EXPECT_TRUE(RunWindows(tracker, Load(2), 1));
  EXPECT_EQ(tracker.id(), "c1");
  EXPECT_FALSE(tracker.remembered());
  tracker.NewStretch();
  EXPECT_TRUE(RunWindows(tracker, Load(9), kSettle));
  EXPECT_EQ(tracker.id(), "c2");
  tracker.NewStretch();
  EXPECT_TRUE(RunWindows(tracker, Load(2.2), kSettle));

  EXPECT_EQ(tracker.id(), "c1");
  EXPECT_TRUE(tracker.remembered());
}

TEST(ContextTrackerTest, WindowsOfOtherClientsAtTheBeginningAreNoPartOfTheLoad) {
  ContextTracker tracker(kSettle);
  RunWindows(tracker, Load(20, /*closed_loop=*/false), kSettle - 1);

  RunWindows(tracker, Load(2), kSettle);

  ASSERT_EQ(tracker.library().contexts().size(), 1U);
  EXPECT_DOUBLE_EQ(tracker.library().contexts()[0].centre.value[0], 2);
}

TEST(ContextTrackerTest, WhatWasKeptIsRecalledOnceAStretch) {
  ContextTracker tracker(kSettle);
  RunWindows(tracker, Load(2), kSettle);
  EXPECT_FALSE(tracker.ToRecall("read").has_value());
  tracker.NoteEnd(Kept("c1"), {{"alpha", 30}}, {{"alpha", 80}});
  tracker.NewStretch();
  EXPECT_FALSE(tracker.ToRecall("read").has_value());  // not known yet where we are
  RunWindows(tracker, Load(2), kSettle);

  ASSERT_TRUE(tracker.ToRecall("read").has_value());
  EXPECT_EQ(tracker.ToRecall("read")->setting.at("alpha"), 80);
  EXPECT_FALSE(tracker.ToRecall("write").has_value());
  Change failed = Kept("c1", "context:c1");
  failed.verdict = Verdict::kInconclusive;
  tracker.NoteEnd(failed, {{"alpha", 30}}, {{"alpha", 80}});
  EXPECT_FALSE(tracker.ToRecall("read").has_value());
  tracker.NewStretch();
  RunWindows(tracker, Load(2), kSettle);
  EXPECT_LT(tracker.ToRecall("read")->standing, 1);
}

TEST(ContextTrackerTest, AVoidRecallIsTriedAgainButNotForEver) {
  ContextTracker tracker(kSettle);
  RunWindows(tracker, Load(2), kSettle);
  tracker.NoteEnd(Kept("c1"), {{"alpha", 30}}, {{"alpha", 80}});
  Change change = Kept("c1", "context:c1");
  change.verdict = Verdict::kVoid;

  tracker.NoteEnd(change, {}, {});
  EXPECT_TRUE(tracker.ToRecall("read").has_value());
  for (int i = 0; i < 2; ++i) tracker.NoteEnd(change, {}, {});

  EXPECT_FALSE(tracker.ToRecall("read").has_value());
}

TEST(ContextTrackerTest, OnlyMeasuredKeepsAreProof) {
  ContextTracker tracker(kSettle);
  RunWindows(tracker, Load(2), kSettle);
  Change restored = Kept("c1", "operator:root");
  restored.measured.reset();

  tracker.NoteEnd(restored, {{"alpha", 80}}, {{"alpha", 30}});
  Change reverted = Kept("c1");
  reverted.verdict = Verdict::kRevert;
  tracker.NoteEnd(reverted, {{"alpha", 30}}, {{"alpha", 80}});
  tracker.NoteEnd(Kept(""), {{"alpha", 30}}, {{"alpha", 80}});

  EXPECT_TRUE(tracker.library().contexts()[0].best.empty());
}

TEST(ContextTrackerTest, StatusSaysHowFarItIsAndWhatIsKnown) {
  ContextTracker tracker(kSettle);
  RunWindows(tracker, Load(2), 2);
  EXPECT_EQ(tracker.Status("read").load, "a load seen for 2 of 5 windows");
  RunWindows(tracker, Load(2), 3);
  tracker.NoteEnd(Kept("c1"), {}, {{"alpha", 80}});

  const ContextStatus status = tracker.Status("read");

  EXPECT_EQ(status.id, "c1");
  EXPECT_EQ(status.best_change, 5U);
  EXPECT_DOUBLE_EQ(status.best_effect->mean, 0.1);
  EXPECT_FALSE(tracker.Status("write").best_effect.has_value());
}

}  // namespace
}  // namespace ebb::engine
