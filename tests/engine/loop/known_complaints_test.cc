// One test for each complaint that people make in public about tuners of storage: none of them may
// be true of this one.
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/engine/loop/trusted_node.h"

namespace ebb::engine {
namespace {

constexpr ScriptedAgent::Move kGood{"alpha", 80};
constexpr ScriptedAgent::Move kSham{"sham", 600};

class KnownComplaintsTest : public testing::Test {
 protected:
  // Windows in which another setting runs than in the window before.
  static int Switches(LoopBench& bench, int windows) {
    int switches = 0;
    env::Setting last = bench.node.ReadSettings()->current;
    for (int i = 0; i < windows; ++i) {
      bench.loop->RunOneWindow();
      const env::Setting now = bench.node.ReadSettings()->current;
      switches += now == last ? 0 : 1;
      last = now;
    }
    return switches;
  }
  static size_t Calls(LoopBench& bench, const std::string& verb) {
    const auto& calls = bench.node.calls();
    return static_cast<size_t>(std::count_if(calls.begin(), calls.end(),
                                             [&](const auto& call) { return call.verb == verb; }));
  }
};

// "It rolled everything back when the service was stopped, and the disks stood still."
TEST_F(KnownComplaintsTest, RollbackAtExitCausesAnOutage) {
  LoopBench bench;
  bench.StartLoop({kGood}, /*once=*/true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
  bench.Run(5);
  const env::SettingState before = *bench.node.ReadSettings();
  const size_t calls = bench.node.calls().size();

  bench.loop->Leave("the sidecar stops");

  EXPECT_EQ(bench.node.calls().size(), calls);  // not one change of the node
  EXPECT_EQ(bench.node.ReadSettings()->current, before.current);
  EXPECT_EQ(bench.Value("alpha"), 80);
}

// "It set one knob back and left the one that goes with it, which was then out of range."
// Method: from the trial on every setting that the node is told to run is a legal one, and what
// runs after the end is one that ran before, whole.
TEST_F(KnownComplaintsTest, RollbackWritesAnInvalidValueBecauseACoupledKnobWasLeft) {
  class PairAgent final : public agents::Agent {
   public:
    std::string_view name() const override { return "pair"; }
    std::optional<agents::Proposal> Propose(const agents::ProposalContext& context) override {
      agents::Proposal proposal{context.incumbent, std::nullopt, "two that go together"};
      proposal.candidate.values[*context.space.Find("beta")] = 1 << 20;
      proposal.candidate.values[*context.space.Find("poison")] = 8;
      return proposal;
    }
    void Learn(const agents::Transition&) override {}
    std::string hold_reason() const override { return ""; }
    std::string Save() const override { return ""; }
    absl::Status Load(std::string_view) override { return absl::OkStatus(); }
  };
  LoopBench bench;
  bench.make_agent = [] { return std::make_unique<PairAgent>(); };
  bench.StartLoop({});
  std::set<std::vector<int64_t>> seen;
  while (bench.Changes(Verdict::kRevert).empty() && bench.node.windows() < 200) {
    bench.loop->RunOneWindow();
    const env::Setting runs = bench.node.ReadSettings()->current;
    ASSERT_TRUE(bench.node.space().Faults(runs).empty());
    seen.insert(runs.values);
  }

  ASSERT_EQ(bench.Changes(Verdict::kRevert).size(), 1U);
  EXPECT_EQ(bench.Changes().front().knobs.size(), 2U);
  EXPECT_EQ(seen.size(), 2U);  // the default and the candidate: no mixture of the two ever ran
  EXPECT_EQ(bench.node.ReadSettings()->current, bench.node.space().Default());
}

// "Every ten seconds it changes its mind."
TEST_F(KnownComplaintsTest, FlipsAKnobEveryTenSeconds) {
  LoopBench bench;
  bench.StartLoop({kGood, {"alpha", 30}});
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));

  const int switches = Switches(bench, 1000);

  // An hour of its windows is a few trials, re-checks and holdback blocks: not one switch in ten.
  EXPECT_LE(switches, 100);
  EXPECT_EQ(bench.Changes(Verdict::kKeep).size(), 1U);
  bench.loop->Leave("the test is over");
  EXPECT_EQ(bench.Value("alpha"), 80);
}

// "The brake had just pulled the value down, and it pushed it up again at once."
TEST_F(KnownComplaintsTest, ReRaisesAValueStraightAfterTheBrake) {
  LoopBench bench;
  bench.config.trip_wires = {.p99_factor = 1.3, .p99_floor_us = 0, .throughput_share_min = 0};
  bench.StartLoop({{"poison", 10}, {"poison", 10}, kSham});
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kRevert).empty(); }));

  for (int i = 0; i < 300; ++i) {
    bench.loop->RunOneWindow();
    ASSERT_EQ(bench.Value("poison"), 0);
  }

  EXPECT_EQ(bench.Changes(Verdict::kRevert).size(), 1U);
}

// "It went on raising the value far beyond the point where that did anything."
TEST_F(KnownComplaintsTest, KeepsRaisingPastALimitWithNoEffect) {
  LoopBench bench;
  bench.StartLoop({{"sham", 600}, {"sham", 700}, {"sham", 800}, {"sham", 900}, {"sham", 1000}});

  bench.Run(600);

  bench.loop->Leave("the test is over");
  EXPECT_EQ(bench.Value("sham"), 500);
  EXPECT_TRUE(bench.Changes(Verdict::kKeep).empty());
  // Three trials without effect, and the back-off doubles its wait after each further one.
  EXPECT_LE(bench.Changes().size(), 9U);
}

// "Throughput swings by 30 % although nothing about the load changes." Only the scheduled holdback,
// whose share is configured, may run something much worse than what is trusted.
TEST_F(KnownComplaintsTest, SwingsThirtyPercentOnAStableLoad) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.noise_cv = 0.03;
  LoopBench bench(model);
  bench.StartLoop({kGood, {"beta", 16 << 20}, {"gamma", 1}, kSham});
  bench.Run(300);

  int swings = 0;
  int holdback = 0;
  for (int i = 0; i < 1000; ++i) {
    bench.loop->RunOneWindow();
    const env::SettingState state = *bench.node.ReadSettings();
    const auto open = bench.loop->record().open;
    if (open && open->kind == OpenWork::Kind::kHoldback) {
      ++holdback;
      continue;
    }
    const double behind =
        bench.node.TrueLogGain(state.incumbent, 0.5) - bench.node.TrueLogGain(state.current, 0.5);
    swings += behind > -std::log(0.7) ? 1 : 0;
  }

  EXPECT_EQ(swings, 0);
  EXPECT_GT(holdback, 0);
  EXPECT_LE(holdback, 70);  // 5 %, and the windows in which it settles
}

// "I had set it by hand. Next morning its value was back."
TEST_F(KnownComplaintsTest, OverwritesWhatTheAdminSet) {
  for (const TunerState state : {TunerState::kLearningBaseline, TunerState::kScreening,
                                 TunerState::kConfirming, TunerState::kConverged}) {
    SCOPED_TRACE(TunerStateWord(state));
    LoopBench bench;
    bench.StartLoop({kGood, {"alpha", 30}, kSham});
    ASSERT_TRUE(bench.RunUntilState(state));
    env::Setting theirs = bench.node.ReadSettings()->incumbent;
    theirs.values[*bench.node.space().Find("alpha")] = 55;
    bench.node.ChangeFromOutside(theirs);

    bench.Run(3);
    for (int i = 0; i < 400; ++i) {
      bench.loop->RunOneWindow();
      ASSERT_EQ(bench.Value("alpha"), 55);
    }

    bench.loop->Leave("the test is over");
    EXPECT_EQ(TrustFaults(bench), "");
  }
}

// A restore that was interrupted does not undo what an administrator did in the meantime.
TEST_F(KnownComplaintsTest, OverwritesWhatTheAdminSetWhenARestoreIsResumed) {
  LoopBench bench;
  bench.StartLoop({kGood}, /*once=*/true);
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));
  ASSERT_TRUE(bench.loop->Restore("operator:root").ok());
  bench.power.fate = [&](uint64_t, bool to_node) {
    // The intent is written, the node untouched.
    if (to_node && bench.loop->record().open.has_value()) bench.power.dead = true;
    return Fate::kArrives;
  };
  bench.Run(3);
  bench.Kill();
  env::Setting theirs = bench.node.ReadSettings()->incumbent;
  theirs.values[*bench.node.space().Find("beta")] = 16 << 20;
  bench.node.ChangeFromOutside(theirs);

  bench.StartLoop({}, /*once=*/true);
  bench.Run(5);

  EXPECT_EQ(bench.Value("beta"), 16 << 20);
  EXPECT_EQ(TrustFaults(bench), "");
}

// "The log holds the same line sixty-four times."
TEST_F(KnownComplaintsTest, LogsTheSameChangeSixtyFourTimes) {
  LoopBench bench;
  bench.config.recheck_after_windows = 0;
  bench.config.holdback_share = 0;
  bench.StartLoop({kGood, {"codec", 0}, {"poison", 8}});
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }));

  bench.Run(400);

  std::map<std::string, int> times;
  bench.history
      ->Events(0,
               [&](const HistoryEvent& event) {
                 const size_t from = event.json.find("\"text\"");
                 const size_t to = event.json.find(",\"wall_ms\"");
                 ++times[event.json.substr(from, to - from)];
                 return true;
               })
      .IgnoreError();
  for (const auto& [text, count] : times) EXPECT_LE(count, 3) << text;
  EXPECT_EQ(bench.Changes(Verdict::kKeep).size(), 1U);
}

// "The write to the knob failed, and ever since it believes that the value is bad."
TEST_F(KnownComplaintsTest, FailedApplyCountedAsBadSetting) {
  LoopBench bench;
  bench.StartLoop({kGood});
  bench.node.FailNextApply(absl::InternalError("EIO"));

  ASSERT_TRUE(bench.RunUntil([&] { return bench.Changes().size() == 1; }));
  ASSERT_TRUE(bench.RunUntil([&] { return bench.Changes().front().verdict != Verdict::kPending; }));

  EXPECT_EQ(bench.Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(bench.agent->learned.back().outcome, agents::Outcome::kVoid);
  EXPECT_FALSE(bench.agent->learned.back().measured.has_value());
  // The same move is tried again and kept, without a wait for a tabu to end.
  ASSERT_TRUE(bench.RunUntil([&] { return !bench.Changes(Verdict::kKeep).empty(); }, 120));
  EXPECT_EQ(bench.Value("alpha"), 80);
  EXPECT_GE(Calls(bench, "commit"), 1U);
}

}  // namespace
}  // namespace ebb::engine
