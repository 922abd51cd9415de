// Recommendations on a node: nothing runs without a person's yes, and a person's no is remembered.
#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

const ScriptedAgent::Move kGood{"alpha", 80};
const ScriptedAgent::Move kSham{"sham", 800};

class NodeLoopAdviceTest : public testing::Test {
 protected:
  // Runs in `mode` until the first recommendation stands.
  Recommendation FirstAdvice(Mode mode, std::vector<ScriptedAgent::Move> moves) {
    bench_.mode = mode;
    bench_.StartLoop(std::move(moves));
    EXPECT_TRUE(bench_.RunUntil([&] { return !bench_.loop->Recommendations().empty(); }))
        << bench_.loop->Status().why;
    return bench_.loop->Recommendations().front();
  }
  absl::Status Decide(const std::string& id, bool approve, const std::string& reason = "") {
    return bench_.loop->DecideRecommendation(id, approve, reason, "operator:al").status();
  }
  RecommendationState StateOf(const std::string& id) {
    for (const Recommendation& one : bench_.loop->Recommendations()) {
      if (one.id == id) return one.state;
    }
    ADD_FAILURE() << "no recommendation " << id;
    return RecommendationState::kWithdrawn;
  }

  LoopBench bench_;
};

TEST_F(NodeLoopAdviceTest, ItTellsMoveBoundsReasonAndExpiry) {
  const Recommendation advice = FirstAdvice(Mode::kRecommend, {kGood});

  EXPECT_EQ(advice.state, RecommendationState::kWaiting);
  EXPECT_EQ(advice.actor, "agent:scripted");
  EXPECT_EQ(advice.goal, "balanced");
  ASSERT_EQ(advice.knobs.size(), 1U);
  EXPECT_EQ(advice.knobs[0].knob, "alpha");
  EXPECT_EQ(advice.knobs[0].from, 30);
  EXPECT_EQ(advice.knobs[0].to, 80);
  EXPECT_EQ(advice.knobs[0].low, 0);
  EXPECT_EQ(advice.knobs[0].high, 100);
  EXPECT_EQ(advice.reason, "the script says so");
  EXPECT_EQ(advice.expires_ms, advice.made_ms + bench_.config.recommendation_ms);
  bench_.Run(1);
  EXPECT_NE(bench_.loop->Status().why.find(advice.id), std::string::npos);
}

TEST_F(NodeLoopAdviceTest, InModeRecommendNothingIsEverApplied) {
  const Recommendation advice = FirstAdvice(Mode::kRecommend, {kGood});

  const absl::Status refused = Decide(advice.id, true);
  bench_.Run(200);

  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("ebb mode node-a approve"), std::string::npos) << refused;
  EXPECT_TRUE(bench_.node.calls().empty());
  ASSERT_EQ(bench_.Changes().size(), 1U);
  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kPending);
  EXPECT_EQ(bench_.Changes().front().applied_ms, 0);
}

TEST_F(NodeLoopAdviceTest, AnApprovalStartsTheTrialOfExactlyThatCandidate) {
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood});
  bench_.Run(50);
  EXPECT_TRUE(bench_.node.calls().empty());

  ASSERT_TRUE(Decide(advice.id, true, "tested on beta").ok());
  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }))
      << bench_.loop->Status().why;

  const Change change = bench_.Changes(Verdict::kKeep).front();
  EXPECT_EQ(change.id, advice.change_id);
  EXPECT_EQ(change.actor, "agent:scripted");
  EXPECT_EQ(bench_.Value("alpha"), 80);
  std::string life;
  for (const ChangeStep& step : change.steps) life += step.step + ";";
  EXPECT_EQ(life.find("recommended;approved;applied;"), 0U) << life;
  const std::vector<std::string> events = bench_.Events("change.approved");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_NE(events[0].find("operator:al approved recommendation " + advice.id + ": tested on beta"),
            std::string::npos)
      << events[0];
  EXPECT_EQ(StateOf(advice.id), RecommendationState::kTried);
  EXPECT_EQ(bench_.node.calls().front().terms.reason.find("trial 1"), 0U);
  EXPECT_TRUE(bench_.history->Verify().ok());
}

TEST_F(NodeLoopAdviceTest, ARejectionIsRememberedWithItsActorEvenInModeAuto) {
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood, kSham});

  ASSERT_TRUE(Decide(advice.id, false, "not this one").ok());

  const Change change = *bench_.history->GetChange(advice.change_id);
  EXPECT_EQ(change.verdict, Verdict::kVoid);
  EXPECT_NE(change.verdict_reason.find("operator:al"), std::string::npos);
  EXPECT_EQ(bench_.Events("change.rejected").size(), 1U);
  ASSERT_TRUE(bench_.RunUntil([&] { return bench_.loop->Recommendations().size() == 2; }));
  EXPECT_EQ(bench_.loop->Recommendations().front().knobs[0].knob, "sham");
  ASSERT_FALSE(bench_.agent->learned.empty());
  EXPECT_EQ(bench_.agent->learned.front().outcome, agents::Outcome::kInconclusive);
  bench_.Kill();
  bench_.StartLoop({kGood});
  ASSERT_TRUE(bench_.loop->SetMode(Mode::kAuto, "operator:bo").ok());
  bench_.Run(200);
  EXPECT_EQ(bench_.Value("alpha"), 30);
  ASSERT_FALSE(bench_.Events("refused").empty());
  EXPECT_NE(bench_.Events("refused").back().find("operator:al rejected this move"),
            std::string::npos);
}

TEST_F(NodeLoopAdviceTest, WaitingAndApprovedOnesSurviveARestart) {
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood});
  bench_.Kill();
  bench_.StartLoop({});
  bench_.Run(3);
  EXPECT_EQ(StateOf(advice.id), RecommendationState::kWaiting);
  ASSERT_TRUE(Decide(advice.id, true).ok());
  bench_.Kill();
  bench_.StartLoop({});

  ASSERT_TRUE(bench_.RunUntil([&] { return !bench_.Changes(Verdict::kKeep).empty(); }))
      << bench_.loop->Status().why;

  EXPECT_EQ(bench_.Changes(Verdict::kKeep).front().id, advice.change_id);
  EXPECT_EQ(bench_.Value("alpha"), 80);
}

TEST_F(NodeLoopAdviceTest, AnUndecidedOneExpiresAndTheNextTakesItsPlace) {
  bench_.config.recommendation_ms = 100'000;
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood, kSham});

  bench_.Run(110);

  EXPECT_EQ(StateOf(advice.id), RecommendationState::kExpired);
  EXPECT_EQ(bench_.history->GetChange(advice.change_id)->verdict, Verdict::kVoid);
  EXPECT_EQ(bench_.loop->Recommendations().front().knobs[0].knob, "sham");
  EXPECT_FALSE(Decide(advice.id, true).ok());
  EXPECT_TRUE(bench_.node.calls().empty());
}

TEST_F(NodeLoopAdviceTest, WhatIsNoLongerLegalIsWithdrawnAndSaysWhy) {
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood});
  ASSERT_TRUE(bench_.loop->Pause("backup", std::nullopt, "operator:bo").ok());
  bench_.Run(1);
  ASSERT_TRUE(Decide(advice.id, true).ok());
  bench_.Run(20);
  EXPECT_TRUE(bench_.node.calls().empty());  // paused: the approval waits
  ASSERT_TRUE(bench_.loop->Pin("alpha", true, "operator:bo").ok());

  ASSERT_TRUE(bench_.loop->Resume("operator:bo").ok());
  bench_.Run(20);

  EXPECT_EQ(StateOf(advice.id), RecommendationState::kWithdrawn);
  EXPECT_EQ(bench_.loop->Recommendations().back().decision_reason,
            "no longer legal: alpha is pinned");
  EXPECT_TRUE(bench_.node.calls().empty());
  EXPECT_TRUE(bench_.Changes(Verdict::kPending).empty());
}

TEST_F(NodeLoopAdviceTest, AnotherIncumbentMakesAnotherCandidateOfIt) {
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood});
  ASSERT_TRUE(Decide(advice.id, true).ok());
  env::Setting theirs = bench_.node.space().Default();
  theirs.values[*bench_.node.space().Find("sham")] = 600;
  bench_.node.ChangeFromOutside(theirs);

  bench_.Run(100);

  // The same move is recommended again from there, and waits for an approval of its own.
  ASSERT_EQ(bench_.Events("change.withdrawn").size(), 1U);
  EXPECT_NE(bench_.Events("change.withdrawn")[0].find("the setting that it starts from is gone"),
            std::string::npos);
  EXPECT_EQ(StateOf(advice.id), RecommendationState::kWaiting);
  EXPECT_EQ(bench_.Value("alpha"), 30);
}

TEST_F(NodeLoopAdviceTest, ModesMayChangeUnderIt) {
  const Recommendation advice = FirstAdvice(Mode::kRecommend, {kGood});
  ASSERT_TRUE(bench_.loop->SetMode(Mode::kApprove, "operator:al").ok());
  bench_.Run(1);
  EXPECT_EQ(StateOf(advice.id), RecommendationState::kWaiting);
  ASSERT_TRUE(Decide(advice.id, true).ok());

  // Back within the same window: the approval must not outlive the mode that it was given in.
  ASSERT_TRUE(bench_.loop->SetMode(Mode::kRecommend, "operator:al").ok());
  bench_.Run(100);

  EXPECT_NE(StateOf(advice.id), RecommendationState::kApproved);
  EXPECT_TRUE(bench_.node.calls().empty());
}

TEST_F(NodeLoopAdviceTest, ATrialThatNobodyApprovedEndsInModeApprove) {
  bench_.StartLoop({kGood});
  ASSERT_TRUE(bench_.RunUntilState(TunerState::kScreening));

  ASSERT_TRUE(bench_.loop->SetMode(Mode::kApprove, "operator:al").ok());
  bench_.Run(1);

  EXPECT_EQ(bench_.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench_.Value("alpha"), 30);
  EXPECT_TRUE(bench_.NodeIsClean());
}

TEST_F(NodeLoopAdviceTest, AnApprovalThatCannotBeWrittenIsNone) {
  const Recommendation advice = FirstAdvice(Mode::kApprove, {kGood});
  bench_.disk->full = true;

  EXPECT_FALSE(Decide(advice.id, true).ok());
  bench_.Run(10);

  EXPECT_EQ(StateOf(advice.id), RecommendationState::kWaiting);
  EXPECT_TRUE(bench_.node.calls().empty());
}

// Goal: killed at any call between the approval and the trial's end, the sidecar starts the trial
// at most once and leaves no change open. Method: every call that leaves it, one after the other.
TEST_F(NodeLoopAdviceTest, KilledAtAnyStepAfterTheApprovalNothingIsTriedTwice) {
  for (uint64_t step = 0; step < 60; ++step) {
    SCOPED_TRACE(testing::Message() << "killed at call " << step);
    LoopBench bench;
    bench.mode = Mode::kApprove;
    bench.StartLoop({kGood}, /*once=*/true);
    ASSERT_TRUE(bench.RunUntil([&] { return !bench.loop->Recommendations().empty(); }));
    const std::string id = bench.loop->Recommendations().front().id;
    bench.power.calls_left = step;
    const bool approved = bench.loop->DecideRecommendation(id, true, "", "operator:al").ok();
    for (int i = 0; i < 30 && !bench.power.dead; ++i) bench.loop->RunOneWindow();
    ASSERT_TRUE(bench.power.dead);
    bench.Kill();

    bench.StartLoop({}, /*once=*/true);
    bench.Run(2);

    const Recommendation after = bench.loop->Recommendations().front();
    ASSERT_EQ(bench.Changes().size(), 1U);
    ASSERT_TRUE(bench.NodeIsClean());
    ASSERT_TRUE(bench.history->Verify().ok());
    if (after.open()) {
      ASSERT_EQ(bench.Changes().front().applied_ms, 0);
      ASSERT_EQ(after.state == RecommendationState::kApproved, approved);
      continue;
    }
    ASSERT_EQ(after.state, RecommendationState::kTried);
    ASSERT_NE(bench.Changes().front().verdict, Verdict::kPending);
  }
}

}  // namespace
}  // namespace ebb::engine
