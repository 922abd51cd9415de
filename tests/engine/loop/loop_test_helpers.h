// A node made of formulas, scripted agents and a power switch, for the tests of the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/history/history.h"
#include "engine/loop/node_loop.h"
#include "env/testing/simple_model_environment.h"

namespace ebb::engine {

// What becomes of one call that leaves the sidecar.
enum class Fate : uint8_t { kArrives, kRefused, kAnswerLost };

// Counts the calls that leave the sidecar; when they are used up, the sidecar is dead: every
// further call fails without effect.
struct PowerSwitch {
  std::optional<uint64_t> calls_left = {};
  uint64_t calls = 0;
  bool dead = false;
  // Asked at every call of a living sidecar; the first has number 1.
  std::function<Fate(uint64_t call, bool to_node)> fate = {};
  // Sees every setting that the node is asked to run, just before it gets it.
  std::function<void(const env::Setting&)> before_change = {};

  Fate Next(bool to_node) {
    if (dead) return Fate::kRefused;
    ++calls;
    if (calls_left && (*calls_left)-- == 0) dead = true;
    if (dead) return Fate::kRefused;
    return fate ? fate(calls, to_node) : Fate::kArrives;
  }
};

inline absl::Status DeadStatus() { return absl::UnavailableError("the sidecar is dead"); }

// Hands on to an environment that outlives the loop.
class BorrowedEnvironment final : public env::Environment {
 public:
  BorrowedEnvironment(env::Environment& environment, PowerSwitch& power)
      : environment_(&environment), power_(power) {}
  // Another node answers on the same connection, as when a live one was restarted.
  void SwitchTo(env::Environment& environment) { environment_ = &environment; }

  const env::EnvironmentInfo& info() const override { return environment_->info(); }
  const env::KnobSpace& space() const override { return environment_->space(); }
  absl::StatusOr<env::Observation> Observe() override {
    return Ask([&] { return environment_->Observe(); });
  }
  double window_seconds() const override { return environment_->window_seconds(); }
  absl::StatusOr<env::SettingState> ReadSettings() override {
    return Ask([&] { return environment_->ReadSettings(); });
  }
  absl::StatusOr<env::AppliedSetting> Apply(const env::Setting& candidate, uint64_t base_version,
                                            const env::LeaseTerms& terms) override {
    return Ask([&] {
      if (power_.before_change) power_.before_change(candidate);
      return environment_->Apply(candidate, base_version, terms);
    });
  }
  absl::Status Renew(const std::string& lease, uint64_t lease_ms) override {
    return Ask([&] { return environment_->Renew(lease, lease_ms); });
  }
  absl::StatusOr<uint64_t> Commit(const std::string& lease) override {
    return Ask([&] { return environment_->Commit(lease); });
  }
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason) override {
    return Ask([&] { return environment_->Revert(lease, reason); });
  }
  absl::StatusOr<uint64_t> SetIncumbent(const env::Setting& setting, const std::string& actor,
                                        const std::string& reason) override {
    return Ask([&] {
      if (power_.before_change) power_.before_change(setting);
      return environment_->SetIncumbent(setting, actor, reason);
    });
  }
  absl::StatusOr<std::vector<env::NodeEvent>> Events(uint64_t after) override {
    return Ask([&] { return environment_->Events(after); });
  }

 private:
  template <typename Call>
  auto Ask(Call call) -> decltype(call()) {
    const Fate fate = power_.Next(/*to_node=*/true);
    if (fate == Fate::kRefused) return DeadStatus();
    decltype(call()) answer = call();
    if (fate == Fate::kAnswerLost) return absl::UnavailableError("the answer was lost");
    return answer;
  }

  env::Environment* environment_;
  PowerSwitch& power_;
};

// Hands on to a store that outlives the history.
class BorrowedStore final : public OrderedStore {
 public:
  BorrowedStore(OrderedStore& store, PowerSwitch& power) : store_(store), power_(power) {}
  absl::Status Write(const std::vector<StoreEdit>& batch, bool sync) override {
    const Fate fate = power_.Next(/*to_node=*/false);
    if (power_.dead) return DeadStatus();
    if (full || fate == Fate::kRefused) {
      return absl::ResourceExhaustedError("no space left for the history");
    }
    return store_.Write(batch, sync);
  }
  absl::StatusOr<std::optional<std::string>> Get(Table table, std::string_view key) override {
    return store_.Get(table, key);
  }
  absl::Status Scan(Table table, std::string_view from, std::string_view to, bool descending,
                    const Visit& visit) override {
    return store_.Scan(table, from, to, descending, visit);
  }
  std::unique_ptr<KeyCursor> MakeCursor(Table table, std::string from, std::string to) override {
    return store_.MakeCursor(table, std::move(from), std::move(to));
  }
  absl::Status DeleteRange(Table table, std::string_view from, std::string_view to) override {
    return store_.DeleteRange(table, from, to);
  }
  bool full = false;

 private:
  OrderedStore& store_;
  PowerSwitch& power_;
};

// Proposes the moves of a list, over and over, from the incumbent of the moment.
class ScriptedAgent final : public agents::Agent {
 public:
  struct Move {
    std::string knob;
    int64_t to = 0;
  };
  explicit ScriptedAgent(std::vector<Move> moves, bool once = false)
      : moves_(std::move(moves)), once_(once) {}
  std::string_view name() const override { return "scripted"; }
  std::optional<agents::Proposal> Propose(const agents::ProposalContext& context) override {
    if (moves_.empty() || (once_ && next_ >= moves_.size())) return std::nullopt;
    const Move& move = moves_[next_ % moves_.size()];
    agents::Proposal proposal;
    proposal.candidate = context.incumbent;
    proposal.candidate.values[*context.space.Find(move.knob)] = move.to;
    proposal.reason = "the script says so";
    ++next_;
    return proposal;
  }
  void Learn(const agents::Transition& transition) override { learned.push_back(transition); }
  std::string hold_reason() const override { return "the script is at its end"; }
  std::string Save() const override { return std::to_string(next_); }
  absl::Status Load(std::string_view state) override {
    next_ = std::stoul(std::string(state));
    return absl::OkStatus();
  }
  std::vector<agents::Transition> learned;

 private:
  std::vector<Move> moves_;
  bool once_;
  size_t next_ = 0;
};

// One node, its history and one loop at a time over them.
class LoopBench {
 public:
  explicit LoopBench(env::SimpleModelConfig model = env::DefaultModelConfig())
      : node(std::move(model), clock), store_(MakeMemoryStore()) {
    OpenHistoryAgain();
  }
  // A new sidecar over what is left of the old one.
  void StartLoop(std::vector<ScriptedAgent::Move> moves, bool once = false) {
    loop.reset();
    moves_ = std::move(moves);
    once_ = once;
    NodeRecord record;
    record.id = "node-a";
    record.control_socket = "/nowhere";
    record.mode = mode;
    if (const auto document = history->Document(RecordKey(record.id)); document.ok() && *document) {
      record = *RecordFromJson(**document);
    }
    NodeLoopParts parts{
        clock, *history,
        [this](const std::string&) -> absl::StatusOr<std::unique_ptr<env::Environment>> {
          if (unreachable) return absl::UnavailableError("nobody listens");
          env::Environment& there = stand_in != nullptr ? *stand_in : node;
          auto made = std::make_unique<BorrowedEnvironment>(there, power);
          connection = made.get();
          return made;
        },
        [this](const std::string&, const env::EnvironmentInfo&,
               const env::KnobSpace&) -> absl::StatusOr<std::unique_ptr<agents::Agent>> {
          if (make_agent) return make_agent();
          auto made = std::make_unique<ScriptedAgent>(moves_, once_);
          agent = made.get();
          return made;
        },
        config};
    loop = std::make_unique<NodeLoop>(parts, record, nullptr);
  }
  void OpenHistoryAgain() {
    loop.reset();
    auto borrowed = std::make_unique<BorrowedStore>(*store_, power);
    disk = borrowed.get();
    history = *History::Open(std::move(borrowed), {});
    power.calls = 0;  // what opening wrote is not the loop's
  }
  // Kills the sidecar: nothing that it still does has an effect. Then time passes.
  void Kill(uint64_t dead_ms = 0) {
    power.dead = true;
    loop.reset();
    power = PowerSwitch{.before_change = power.before_change};
    OpenHistoryAgain();
    clock.AdvanceNs(dead_ms * 1'000'000);
  }
  void Run(int windows) {
    for (int i = 0; i < windows; ++i) loop->RunOneWindow();
  }
  template <typename Condition>
  bool RunUntil(Condition condition, int windows_max = 500) {
    for (int i = 0; i < windows_max; ++i) {
      if (condition()) return true;
      loop->RunOneWindow();
    }
    return condition();
  }
  bool RunUntilState(TunerState state, int windows_max = 500) {
    return RunUntil([&] { return loop->Status().state == state; }, windows_max);
  }
  std::vector<Change> Changes(std::optional<Verdict> verdict = std::nullopt) {
    ChangeQuery query;
    query.verdict = verdict;
    query.limit = 500;
    return *history->Changes("node-a", query);
  }
  std::vector<std::string> Events(const std::string& kind) {
    std::vector<std::string> found;
    const std::string wanted = "\"kind\":\"" + kind + "\"";
    history
        ->Events(0,
                 [&](const HistoryEvent& event) {
                   if (event.json.find(wanted) != std::string::npos) found.push_back(event.json);
                   return true;
                 })
        .IgnoreError();
    return found;
  }
  int64_t Value(const std::string& knob) {
    return node.ReadSettings()->current.values[*node.space().Find(knob)];
  }
  bool NodeIsClean() {
    const env::SettingState state = *node.ReadSettings();
    return state.lease.empty() && state.current == state.incumbent;
  }

  ManualClock clock;
  env::SimpleModelEnvironment node;
  PowerSwitch power;
  LoopConfig config;
  Mode mode = Mode::kAuto;
  bool unreachable = false;
  env::Environment* stand_in = nullptr;  // what answers instead of `node`
  // Another agent than the scripted one.
  std::function<std::unique_ptr<agents::Agent>()> make_agent = {};
  BorrowedStore* disk = nullptr;
  std::unique_ptr<History> history;
  ScriptedAgent* agent = nullptr;
  BorrowedEnvironment* connection = nullptr;  // the latest
  std::unique_ptr<NodeLoop> loop;

 private:
  std::unique_ptr<OrderedStore> store_;
  std::vector<ScriptedAgent::Move> moves_;
  bool once_ = false;
};

}  // namespace ebb::engine
