// A load that comes back is recognised, and its best known setting is tried first, under guard.
#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

constexpr uint64_t kLeave = 200;
constexpr uint64_t kReturn = 400;

env::SimpleModelConfig LoadThatComesBack() {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.steps = {{kLeave, 1, 0.95, 65536}, {kReturn, 1, 0.5, 4096}};
  return model;
}

// Keeps alpha = 80 under the first load; the other load then finds the default, by an operator's
// doing.
void KeepThenRestoreUnderTheOtherLoad(LoopBench& bench) {
  bench.StartLoop({{"alpha", 80}}, /*once=*/true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }, kLeave));
  ASSERT_TRUE(bench.RunUntil([&] { return bench.loop->Status().context.id == "c2"; }, 300));
  ASSERT_TRUE(bench.loop->Restore("operator:root").ok());
  bench.Run(2);
  ASSERT_EQ(bench.Value("alpha"), 30);
  ASSERT_TRUE(bench.loop->Resume("operator:root").ok());
}

std::vector<Change> Recalls(LoopBench& bench) {
  std::vector<Change> recalls;
  for (const Change& change : bench.Changes()) {
    if (change.actor == "context:c1") recalls.push_back(change);
  }
  return recalls;
}

TEST(NodeLoopContextTest, BestKnownSettingOfALoadThatCameBackIsProvedAgainAndKept) {
  LoopBench bench(LoadThatComesBack());
  KeepThenRestoreUnderTheOtherLoad(bench);

  ASSERT_TRUE(bench.RunUntil([&] { return !Recalls(bench).empty(); }, 400));
  EXPECT_TRUE(bench.loop->Status().context.remembered);
  EXPECT_EQ(bench.loop->Status().context.id, "c1");
  ASSERT_TRUE(bench.RunUntil([&] { return Recalls(bench)[0].verdict != Verdict::kPending; }, 80));

  const Change recall = Recalls(bench)[0];
  EXPECT_EQ(recall.verdict, Verdict::kKeep) << recall.verdict_reason;
  EXPECT_EQ(recall.context, "c1");
  EXPECT_EQ(bench.Value("alpha"), 80);
  // The shortened protocol: straight to the pairs.
  for (const ChangeStep& step : recall.steps) EXPECT_NE(step.step, "screening");
  EXPECT_EQ(bench.agent->learned.size(), 1U);  // of its own proposal, not of the recall
  bench.Run(100);
  EXPECT_EQ(Recalls(bench).size(), 1U);
}

TEST(NodeLoopContextTest, RemembersAcrossADeathOfTheSidecar) {
  LoopBench bench(LoadThatComesBack());
  KeepThenRestoreUnderTheOtherLoad(bench);

  bench.Run(20);
  bench.Kill();
  bench.StartLoop({}, /*once=*/true);

  ASSERT_TRUE(bench.RunUntil([&] { return !Recalls(bench).empty(); }, 400));
  EXPECT_EQ(bench.loop->Status().context.id, "c1");
  EXPECT_EQ(bench.loop->Status().context.best_change, 1U);
}

TEST(NodeLoopContextTest, ASettingThatHelpsNoMoreLosesItsStanding) {
  env::SimpleModelConfig model = LoadThatComesBack();
  LoopBench bench(model);
  // Under the other load a second knob is set right; going back to the first alone is worse then.
  bench.StartLoop({{"alpha", 80}, {"beta", 16 << 20}}, /*once=*/true);
  ASSERT_TRUE(bench.RunUntil([&] { return bench.Changes(Verdict::kKeep).size() == 1; }, kLeave));
  ASSERT_TRUE(bench.loop->Pause("hold on", std::nullopt, "operator:root").ok());
  ASSERT_TRUE(bench.RunUntil([&] { return bench.loop->Status().context.id == "c2"; }, 300));
  ASSERT_TRUE(bench.loop->Resume("operator:root").ok());
  ASSERT_TRUE(bench.RunUntil([&] { return bench.Changes(Verdict::kKeep).size() == 2; }, 180));

  ASSERT_TRUE(bench.RunUntil([&] { return !Recalls(bench).empty(); }, 400));
  ASSERT_TRUE(bench.RunUntil([&] { return Recalls(bench)[0].verdict != Verdict::kPending; }, 80));

  EXPECT_NE(Recalls(bench)[0].verdict, Verdict::kKeep);
  EXPECT_EQ(bench.Value("beta"), 16 << 20);
  ContextLibrary saved;
  ASSERT_TRUE(saved.Load(**bench.history->Document(ContextKey("node-a"))).ok());
  EXPECT_LT(saved.Find("c1")->best.at("balanced").standing, 1);
}

TEST(NodeLoopContextTest, PinnedKnobsAreNoPartOfARecall) {
  LoopBench bench(LoadThatComesBack());
  KeepThenRestoreUnderTheOtherLoad(bench);
  ASSERT_TRUE(bench.loop->Pin("alpha", true, "operator:root").ok());

  ASSERT_TRUE(bench.RunUntil([&] { return bench.loop->Status().context.remembered; }, 400));
  bench.Run(100);

  EXPECT_TRUE(Recalls(bench).empty());
}

TEST(NodeLoopContextTest, ARecallIsRecommendedWhereNothingMayBeChanged) {
  LoopBench bench(LoadThatComesBack());
  KeepThenRestoreUnderTheOtherLoad(bench);
  ASSERT_TRUE(bench.loop->SetMode(Mode::kRecommend, "operator:root").ok());

  ASSERT_TRUE(bench.RunUntil([&] { return !Recalls(bench).empty(); }, 400));
  bench.Run(50);

  EXPECT_EQ(Recalls(bench)[0].verdict, Verdict::kPending);
  EXPECT_EQ(bench.Value("alpha"), 30);
}

TEST(NodeLoopContextTest, AMoveThatFailedUnderOneLoadMayBeTriedUnderAnother) {
  env::SimpleModelConfig model = LoadThatComesBack();
  LoopBench bench(model);
  bench.StartLoop({{"poison", 8}});

  bench.Run(kLeave);
  EXPECT_EQ(bench.Changes(Verdict::kRevert).size(), 1U);
  bench.Run(kReturn - kLeave);
  EXPECT_EQ(bench.Changes(Verdict::kRevert).size(), 2U);
  bench.Run(150);

  // Back under the first load it is known to fail.
  EXPECT_EQ(bench.Changes(Verdict::kRevert).size(), 2U);
  EXPECT_EQ(bench.loop->Status().context.id, "c1");
  std::set<std::string> contexts;
  for (const Change& change : bench.Changes(Verdict::kRevert)) contexts.insert(change.context);
  EXPECT_EQ(contexts, (std::set<std::string>{"c1", "c2"}));
}

}  // namespace
}  // namespace ebb::engine
