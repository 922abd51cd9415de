// Any sequence of windows, faults and requests of people leaves node and history in a state that
// can be trusted; a sequence that does not is shrunk to its shortest.
#include <ostream>
#include <string>
#include <vector>

// gtest first: rapidcheck's adapter expects it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/engine/loop/trusted_node.h"

namespace ebb::engine {
namespace {

constexpr int kCalmWindows = 30;

struct Action {
  enum Kind : uint8_t {
    kRun,
    kKillSidecar,
    kRestartNode,
    kLoseAnswer,
    kBreakConnection,
    kMendConnection,
    kFillDisk,
    kFreeDisk,
    kJumpClock,
    kStaleWindow,
    kForeignChange,
    kPin,
    kUnpin,
    kPause,
    kResume,
    kGoal,
    kMode,
    kRestore,
    kStopAndStart,
  };
  static constexpr int kKinds = 19;
  Kind kind = kRun;
  uint32_t amount = 0;  // windows, milliseconds, a choice: as the kind needs it
};

std::ostream& operator<<(std::ostream& out, const Action& action) {
  constexpr std::array<const char*, Action::kKinds> kNames = {
      "run",     "kill sidecar", "restart node", "lose answer",   "break connection",
      "mend",    "fill disk",    "free disk",    "jump clock",    "stale window",
      "foreign", "pin",          "unpin",        "pause",         "resume",
      "goal",    "mode",         "restore",      "stop and start"};
  return out << kNames[action.kind] << " " << action.amount;
}

// The node under test, and what the sequence did to it.
class Player {
 public:
  Player() : watch_(bench) {
    bench.config.learn_windows = 10;
    bench.config.holdback_share = 0.2;
    bench.config.recheck_after_windows = 20;
    bench.config.nulls_before_back_off = 1000;
    bench.config.envelope.tabu_windows = 20;
    bench.power.fate = [this](uint64_t, bool to_node) { return FateOf(to_node); };
    Start();
    bench.Run(24);  // in time for a first trial
  }

  void Play(const Action& action) {
    switch (action.kind) {
      case Action::kRun:
        return bench.Run(static_cast<int>(1 + action.amount % 12));
      case Action::kKillSidecar:
        bench.Kill(action.amount % 2 == 0 ? 0 : 60'000);
        bench.power.fate = [this](uint64_t, bool to_node) { return FateOf(to_node); };
        return Start();
      case Action::kStopAndStart:
        bench.loop->Leave("asked to stop");
        return Start();
      case Action::kRestartNode:
        return bench.node.Restart();
      case Action::kLoseAnswer:
        lose_in_ = 1 + action.amount % 8;
        return;
      case Action::kBreakConnection:
        bench.unreachable = true;
        return;
      case Action::kMendConnection:
        bench.unreachable = false;
        return;
      case Action::kFillDisk:
        fill_in_ = 1 + action.amount % 8;
        return;
      case Action::kFreeDisk:
        return FreeDisk();
      case Action::kJumpClock:
        return bench.clock.JumpWallMs((action.amount % 2 == 0 ? -1000 : 1000) *
                                      static_cast<int64_t>(action.amount % 100'000));
      case Action::kStaleWindow:
        return bench.node.VoidNextWindow("the numbers are stale");
      case Action::kForeignChange:
        return ChangeFromOutside(action.amount);
      default:
        // May be refused while the disk is full; then nothing has happened.
        return Ask(action).IgnoreError();
    }
  }

  // Every fault is over, and what is under way comes to an end.
  void CalmDown() {
    FreeDisk();
    bench.unreachable = false;
    lose_in_ = 0;
    bench.Run(kCalmWindows);
    bench.loop->Leave("the test is over");
  }
  std::string Faults() {
    std::string faults = TrustFaults(bench);
    if (watch_.unannounced() > 0) faults += "the node got a setting before the journal had it\n";
    if (ForeignChanges(bench) > foreign_)
      faults += "the history invents a change by somebody else\n";
    return faults;
  }

  LoopBench bench;

 private:
  void Start() {
    bench.StartLoop({{"alpha", 80}, {"poison", 8}, {"sham", 600}, {"alpha", 30}, {"sham", 500}});
  }
  void FreeDisk() {
    fill_in_ = 0;
    bench.disk->full = false;
  }
  Fate FateOf(bool to_node) {
    if (!to_node) {
      if (fill_in_ > 0 && --fill_in_ == 0) bench.disk->full = true;
      return Fate::kArrives;
    }
    if (bench.unreachable) return Fate::kRefused;
    return lose_in_ > 0 && --lose_in_ == 0 ? Fate::kAnswerLost : Fate::kArrives;
  }
  void ChangeFromOutside(uint32_t amount) {
    env::Setting theirs = bench.node.ReadSettings()->incumbent;
    theirs.values[*bench.node.space().Find("beta")] = static_cast<int64_t>(1 + amount % 64) << 20;
    ++foreign_;
    bench.node.ChangeFromOutside(theirs);
  }
  absl::Status Ask(const Action& action) {
    const std::string who = "operator:root";
    switch (action.kind) {
      case Action::kPin:
        return bench.loop->Pin(action.amount % 2 == 0 ? "alpha" : "sham", true, who);
      case Action::kUnpin:
        return bench.loop->Pin(action.amount % 2 == 0 ? "alpha" : "sham", false, who);
      case Action::kPause:
        return bench.loop->Pause("for the test", std::nullopt, who);
      case Action::kResume:
        return bench.loop->Resume(who);
      case Action::kGoal:
        return bench.loop->SetGoal(static_cast<agents::GoalKind>(action.amount % 3), who);
      case Action::kMode: {
        constexpr std::array kModes = {Mode::kAuto, Mode::kObserve, Mode::kRecommend,
                                       Mode::kApprove};
        return bench.loop->SetMode(kModes[action.amount % 4], who);
      }
      default:
        return bench.loop->Restore(who);
    }
  }

  JournalWatch watch_;
  uint32_t lose_in_ = 0;  // calls to the node
  uint32_t fill_in_ = 0;  // calls to the disk
  size_t foreign_ = 0;
};

}  // namespace
}  // namespace ebb::engine

namespace rc {

template <>
struct Arbitrary<ebb::engine::Action> {
  static Gen<ebb::engine::Action> arbitrary() {
    using ebb::engine::Action;
    // Half of a sequence is windows, so that trials get somewhere.
    const auto any = gen::map(gen::inRange<int>(0, Action::kKinds),
                              [](int kind) { return static_cast<Action::Kind>(kind); });
    return gen::build<Action>(gen::set(&Action::kind, gen::oneOf(gen::just(Action::kRun), any)),
                              gen::set(&Action::amount, gen::inRange<uint32_t>(0, 200'000)));
  }
};

}  // namespace rc

namespace ebb::engine {
namespace {

RC_GTEST_PROP(NodeLoopProperty, AnySequenceEndsTrusted, (const std::vector<Action>& actions)) {
  Player player;

  for (const Action& action : actions) player.Play(action);
  player.CalmDown();

  const std::string faults = player.Faults();
  if (!faults.empty()) RC_FAIL(faults + Story(player.bench));
}

}  // namespace
}  // namespace ebb::engine
