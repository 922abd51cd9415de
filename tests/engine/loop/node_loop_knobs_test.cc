// A node that comes back with other knobs than it had: after an upgrade, a downgrade, a smaller
// host.
#include <gtest/gtest.h>

#include "agents/baseline/make_agent.h"
#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

// The default model with the knob `lost` gone and a new one, "fresh", in the first place.
env::SimpleModelConfig OtherKnobs(const std::string& lost) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  for (size_t i = 0; i < model.knobs.size(); ++i) {
    if (model.knobs[i].name != lost) continue;
    model.knobs.erase(model.knobs.begin() + static_cast<ptrdiff_t>(i));
    model.responses.erase(model.responses.begin() + static_cast<ptrdiff_t>(i));
  }
  model.knobs.insert(model.knobs.begin(), {.name = "fresh",
                                           .kind = env::KnobKind::kInteger,
                                           .max = 9,
                                           .default_value = 7,
                                           .trades = "New in this build."});
  model.responses.insert(model.responses.begin(), {.best_unit = 0.5});
  return model;
}

class NodeLoopKnobsTest : public testing::Test {
 protected:
  // The connection breaks, and another node answers behind the socket.
  void Upgrade(env::Environment& successor) {
    bench_.stand_in = &successor;
    bench_.node.FailNextObserve(absl::UnavailableError("connection reset"));
  }
  int64_t ValueOf(env::Environment& node, const std::string& knob) {
    return node.ReadSettings()->current.values[*node.space().Find(knob)];
  }
  LoopBench bench_;
};

TEST_F(NodeLoopKnobsTest, InMidTrialTheTrialIsVoidAndTheKnobsAreTold) {
  bench_.StartLoop({{"sham", 600}}, /*once=*/true);
  ASSERT_TRUE(bench_.RunUntilState(TunerState::kScreening));
  env::SimpleModelEnvironment upgraded(OtherKnobs("sham"), bench_.clock);

  Upgrade(upgraded);
  bench_.Run(5);

  EXPECT_TRUE(bench_.loop->Status().connected) << bench_.loop->Status().why;
  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench_.Changes().size(), 1U);  // nobody changed anything: nothing foreign is invented
  EXPECT_FALSE(bench_.loop->record().open.has_value());
  ASSERT_EQ(bench_.Events("knobs").size(), 1U);
  EXPECT_NE(bench_.Events("knobs")[0].find("fresh is new, at 7"), std::string::npos);
  EXPECT_NE(bench_.Events("knobs")[0].find("sham (was 500) is gone"), std::string::npos);
  EXPECT_EQ(bench_.loop->Knobs().front().spec.name, "fresh");
  EXPECT_TRUE(bench_.history->Verify().ok());
}

// Goal: likewise where the adapter finds the restarted node by itself, within one connection.
// Method: the other knobs come in mid-trial, in another order and number.
TEST_F(NodeLoopKnobsTest, OnTheSameConnectionNoSettingIsMistakenForAnother) {
  bench_.StartLoop({{"alpha", 80}}, /*once=*/true);
  ASSERT_TRUE(bench_.RunUntilState(TunerState::kConfirming));
  env::SimpleModelConfig fewer = OtherKnobs("sham");
  fewer.knobs.pop_back();
  fewer.responses.pop_back();
  env::SimpleModelEnvironment upgraded(fewer, bench_.clock);

  bench_.stand_in = &upgraded;
  bench_.connection->SwitchTo(upgraded);
  bench_.Run(5);

  EXPECT_TRUE(bench_.loop->Status().connected) << bench_.loop->Status().why;
  EXPECT_EQ(bench_.Changes().size(), 1U);
  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(upgraded.ReadSettings()->current, upgraded.space().Default());
  EXPECT_EQ(bench_.Events("knobs").size(), 1U);
}

TEST_F(NodeLoopKnobsTest, WhatWasKeptBeforeIsStillTrustedAndTuningGoesOn) {
  bench_.StartLoop({{"alpha", 80}, {"beta", 16 << 20}}, /*once=*/true);
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }));
  env::SimpleModelEnvironment upgraded(OtherKnobs("codec"), bench_.clock);
  env::Setting kept = upgraded.space().Default();
  kept.values[*upgraded.space().Find("alpha")] = 80;  // as the node's own record has it
  ASSERT_TRUE(upgraded.SetIncumbent(kept, "node", "from its record").ok());

  Upgrade(upgraded);
  bench_.Run(5);

  EXPECT_EQ(bench_.Changes().front().actor, "agent:scripted");
  EXPECT_EQ(ValueOf(upgraded, "alpha"), 80);
  ASSERT_TRUE(bench_.loop->Restore("operator:root").ok());
  bench_.Run(3);
  EXPECT_EQ(ValueOf(upgraded, "alpha"), 30);
  EXPECT_EQ(ValueOf(upgraded, "fresh"), 7);
}

// Goal: a restore to what is not legal any more does what it can, says so, and does not keep the
// sidecar from its node. Method: the host shrank, so that what ran before attach is out of range.
TEST_F(NodeLoopKnobsTest, ARestoreOnASmallerHostTakesTheNearestLegalValueAndSaysSo) {
  bench_.StartLoop({{"alpha", 80}}, /*once=*/true);
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }));
  env::SimpleModelConfig smaller = env::DefaultModelConfig();
  for (env::KnobSpec& knob : smaller.knobs) {
    if (knob.name == "beta") knob.max = knob.default_value = 64 << 20;  // 128 MiB before
  }
  env::SimpleModelEnvironment shrunk(smaller, bench_.clock);

  Upgrade(shrunk);
  bench_.Run(5);
  ASSERT_TRUE(bench_.loop->Restore("operator:root").ok());
  bench_.Run(5);

  EXPECT_TRUE(bench_.loop->Status().connected) << bench_.loop->Status().why;
  EXPECT_EQ(bench_.Changes().front().actor, "operator:root");
  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kKeep);
  EXPECT_NE(bench_.Changes().front().reason.find("beta"), std::string::npos);
  EXPECT_EQ(ValueOf(shrunk, "beta"), 64 << 20);
  EXPECT_FALSE(bench_.loop->record().open.has_value());
}

// Goal: no agent proposes, again and again, what the guard refuses by its rules. (The random one
// did: it moved every knob at once and never got a trial.)
TEST(NodeLoopAgentsTest, EveryAgentThatSearchesGetsATrial) {
  for (const std::string name : {"random", "random_one", "hill_climb", "preset_climb"}) {
    SCOPED_TRACE(name);
    LoopBench bench;
    bench.make_agent = [&] { return *agents::MakeAgent(name, 1); };
    bench.StartLoop({});

    bench.Run(120);

    EXPECT_FALSE(bench.Changes().empty()) << bench.loop->Status().why;
  }
}

}  // namespace
}  // namespace ebb::engine
