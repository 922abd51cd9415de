// A fault at every step: before each call that leaves the sidecar, to the node or the history, the
// node restarts, the connection breaks, the clock jumps, the disk fills, somebody else interferes.
//
// The steps are the code's own: a run without a fault counts them, then every one of them is met by
// every fault. (kill -9 of the sidecar itself: node_loop_crash_test.cc.)
#include <gtest/gtest.h>

#include "tests/engine/loop/trusted_node.h"

namespace ebb::engine {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr int kCalmWindows = 25;
constexpr uint64_t kAttachCalls = 12;  // nearly: of the first contact

enum class Fault {
  kAnswerLost,
  kShortOutage,  // the lease still runs afterwards
  kLongOutage,   // it does not
  kNodeRestart,
  kNodeRestartUnseen,  // while the connection is down
  kForeignChange,
  kClockForward,
  kClockBack,
  kStaleMetrics,
  kDiskFull,
  kDiskFullThenKill,
};

const char* Word(Fault fault) {
  constexpr std::array kWords = {"AnswerLost",    "ShortOutage",   "LongOutage",      "NodeRestart",
                                 "RestartUnseen", "ForeignChange", "ClockForward",    "ClockBack",
                                 "StaleMetrics",  "DiskFull",      "DiskFullThenKill"};
  return kWords[static_cast<size_t>(fault)];
}

struct Scenario {
  const char* name;
  int windows;  // until what is to be met by faults is over
  ScriptedAgent::Move move;
  bool restore = false;  // asked for in the middle of the trial
  uint32_t recheck = 0;  // windows after a keep
};

class NodeLoopFault : public testing::TestWithParam<std::tuple<Fault, Scenario>> {
 protected:
  static Fault fault() { return std::get<0>(GetParam()); }
  static const Scenario& scenario() { return std::get<1>(GetParam()); }

  // One run of the scenario with the fault at call `step`, or without one.
  struct Run {
    explicit Run(std::optional<uint64_t> step) : step_(step), watch(bench) {
      bench.config.holdback_share = 0.3;  // often, so that blocks are hit as well
      bench.config.learn_windows = 10;
      bench.config.recheck_after_windows = scenario().recheck;
      bench.power.fate = [this](uint64_t call, bool to_node) { return FateOf(call, to_node); };
    }

    // With a fault some windows longer, so that one at the last call is felt as well.
    void Act() {
      bench.StartLoop({scenario().move}, /*once=*/true);
      bool asked = false;
      for (int i = 0; i < scenario().windows + (step_ ? 12 : 0); ++i) {
        OneWindow();
        if (scenario().restore && !asked && bench.loop->Status().state == TunerState::kConfirming) {
          asked = bench.loop->Restore("operator:root").ok();
        }
        if (fault() == Fault::kDiskFullThenKill && struck && !killed_ && bench.disk->full) {
          killed_ = true;
          bench.Kill();
          bench.StartLoop({}, /*once=*/true);
        }
      }
    }
    // The fault is over; what is under way comes to an end.
    void CalmDown() {
      bench.disk->full = false;
      bench.power.fate = nullptr;
      bench.unreachable = false;
      for (int i = 0; i < kCalmWindows; ++i) OneWindow();
      bench.loop->Leave("the test is over");
    }
    void OneWindow() {
      if (stale_left_ > 0) {
        --stale_left_;
        bench.node.VoidNextWindow("the numbers are stale");
      }
      if (bench.clock.MonotonicNs() >= outage_end_ns_) bench.unreachable = false;
      bench.loop->RunOneWindow();
      if (full_left_ > 0 && --full_left_ == 0) bench.disk->full = false;
      const NodeStatus status = bench.loop->Status();
      if (struck && status.state == TunerState::kDisconnected) told_disconnected = true;
      if (status.health != "ok") told_unwell = true;
    }
    Fate FateOf(uint64_t call, bool to_node);

    LoopBench bench;
    const std::optional<uint64_t> step_;
    JournalWatch watch;
    bool struck = false;
    bool told_disconnected = false;
    bool told_unwell = false;

   private:
    Fate Strike();
    Fate BreakConnection(uint64_t ms) {
      outage_end_ns_ = bench.clock.MonotonicNs() + ms * kMs;
      bench.unreachable = true;
      return Fate::kArrives;
    }
    uint64_t outage_end_ns_ = 0;
    int stale_left_ = 0;
    int full_left_ = 0;
    bool killed_ = false;
  };

  static std::string Untold(Run& run, bool attached);
};

Fate NodeLoopFault::Run::FateOf(uint64_t call, bool to_node) {
  Fate fate = Fate::kArrives;
  if (step_ && call >= *step_ && !struck) {
    // An answer can only be lost, and a node can only be touched, where it is called.
    struck = fault() != Fault::kAnswerLost || to_node;
    if (struck) fate = Strike();
  }
  if (bench.clock.MonotonicNs() >= outage_end_ns_) bench.unreachable = false;
  return bench.unreachable && to_node ? Fate::kRefused : fate;
}

Fate NodeLoopFault::Run::Strike() {
  switch (fault()) {
    case Fault::kAnswerLost:
      return Fate::kAnswerLost;
    case Fault::kShortOutage:
      return BreakConnection(700);
    case Fault::kLongOutage:
      return BreakConnection(60'000);
    case Fault::kNodeRestart:
      bench.node.Restart();
      return Fate::kArrives;
    case Fault::kNodeRestartUnseen:
      bench.node.Restart();
      return BreakConnection(5'000);
    case Fault::kForeignChange: {
      env::Setting theirs = bench.node.ReadSettings()->incumbent;
      theirs.values[*bench.node.space().Find("beta")] = 16 << 20;
      bench.node.ChangeFromOutside(theirs);
      return Fate::kArrives;
    }
    case Fault::kClockForward:
      bench.clock.JumpWallMs(3'600'000);
      return Fate::kArrives;
    case Fault::kClockBack:
      bench.clock.JumpWallMs(-3'600'000);
      return Fate::kArrives;
    case Fault::kStaleMetrics:
      stale_left_ = 20;
      return Fate::kArrives;
    case Fault::kDiskFull:
    case Fault::kDiskFullThenKill:
      bench.disk->full = true;
      full_left_ = 10;
      return Fate::kArrives;
  }
  return Fate::kArrives;
}

// What the operator should have been told of the fault and was not. Before the first contact is
// over there is nobody to tell, and nothing was changed yet.
std::string NodeLoopFault::Untold(Run& run, bool attached) {
  LoopBench& bench = run.bench;
  if (fault() == Fault::kDiskFull && !run.told_unwell) return "the full disk";
  if (!attached) return "";
  // What cannot be written is told by the status alone.
  if (run.told_disconnected && !run.told_unwell &&
      (bench.Events("disconnected").empty() || bench.Events("connected").empty())) {
    return "the broken connection";
  }
  if (fault() == Fault::kNodeRestart && bench.Events("node_restarted").size() != 1) {
    return "the restart";
  }
  if (fault() == Fault::kStaleMetrics && bench.loop->Status().void_windows < 19) {
    return "the void windows";
  }
  // A restore may undo it before it is looked at: then it is told, but is no change.
  if (fault() == Fault::kForeignChange && ForeignChanges(bench) == 0 &&
      bench.Events("node_event").empty()) {
    return "somebody else's change";
  }
  return "";
}

TEST_P(NodeLoopFault, AtEveryStepEndsOnATrustedSettingAndIsTold) {
  uint64_t learned = 0;
  uint64_t calls = 0;
  {
    Run counting(std::nullopt);
    counting.Act();
    calls = counting.bench.power.calls;
    ASSERT_EQ(counting.watch.unannounced(), 0);
    ASSERT_FALSE(counting.bench.Changes().empty());
  }
  {
    Run counting(std::nullopt);
    counting.bench.StartLoop({scenario().move}, /*once=*/true);
    ASSERT_TRUE(counting.bench.RunUntil([&] { return !counting.bench.Changes().empty(); }));
    learned = counting.bench.power.calls - kAttachCalls;
  }
  ASSERT_GT(calls, learned + 60);

  // While it learns, every window makes the same calls: a few of those will do.
  for (uint64_t step = 1; step <= calls; step += step < kAttachCalls || step > learned ? 1 : 17) {
    SCOPED_TRACE(testing::Message() << "fault at call " << step);
    Run run(step);
    run.Act();
    ASSERT_TRUE(run.struck);
    run.CalmDown();

    ASSERT_EQ(TrustFaults(run.bench), "") << Story(run.bench);
    ASSERT_EQ(run.watch.unannounced(), 0) << "the node got a setting before the journal had it";
    ASSERT_LE(ForeignChanges(run.bench), fault() == Fault::kForeignChange ? 1U : 0U);
    ASSERT_EQ(Untold(run, /*attached=*/step > kAttachCalls), "") << Story(run.bench);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Runs, NodeLoopFault,
    testing::Combine(testing::Values(Fault::kAnswerLost, Fault::kShortOutage, Fault::kLongOutage,
                                     Fault::kNodeRestart, Fault::kNodeRestartUnseen,
                                     Fault::kForeignChange, Fault::kClockForward, Fault::kClockBack,
                                     Fault::kStaleMetrics, Fault::kDiskFull,
                                     Fault::kDiskFullThenKill),
                     testing::Values(Scenario{"Keep", 72, {"alpha", 80}},  // and a holdback
                                     Scenario{"Revert", 40, {"poison", 8}},
                                     Scenario{"Restore", 58, {"alpha", 80}, true},
                                     Scenario{"Recheck", 80, {"alpha", 80}, false, 5})),
    [](const auto& run) {
      return std::string(std::get<1>(run.param).name) + Word(std::get<0>(run.param));
    });

}  // namespace
}  // namespace ebb::engine
