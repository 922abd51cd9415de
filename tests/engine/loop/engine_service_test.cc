#include "engine/loop/engine_service.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

// Nodes by socket; every node has a clock of its own, because a node's window moves its clock.
class EngineServiceTest : public testing::Test {
 protected:
  struct Node {
    explicit Node(const std::string& name) : model(Config(name), clock) {}
    static env::SimpleModelConfig Config(const std::string& name) {
      env::SimpleModelConfig config = env::DefaultModelConfig();
      config.seed = std::hash<std::string>()(name);
      return config;
    }
    ManualClock clock;
    env::SimpleModelEnvironment model;
    PowerSwitch power;
  };

  EngineServiceTest() : store_(MakeMemoryStore()) {
    nodes_.emplace("/run/a", std::make_unique<Node>("a"));
    Open();
  }
  void Open() {
    service_.reset();
    auto opened = EngineService::Open(
        RealClock(), *History::Open(std::make_unique<BorrowedStore>(*store_, power_), {}),
        [this](const std::string& socket) -> absl::StatusOr<std::unique_ptr<env::Environment>> {
          const auto found = nodes_.find(socket);
          if (found == nodes_.end()) {
            return absl::UnavailableError("no node listens on " + socket);
          }
          return std::make_unique<BorrowedEnvironment>(found->second->model, found->second->power);
        },
        [](const std::string&, const env::EnvironmentInfo&,
           const env::KnobSpace&) -> absl::StatusOr<std::unique_ptr<agents::Agent>> {
          return std::make_unique<ScriptedAgent>(std::vector<ScriptedAgent::Move>{{"alpha", 80}},
                                                 /*once=*/true);
        },
        LoopConfig{});
    ASSERT_TRUE(opened.ok()) << opened.status();
    service_ = *std::move(opened);
  }
  // The loops run in threads of their own; each pass of this one gives them time.
  template <typename Condition>
  bool Eventually(Condition condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      RealClock().SleepUntilNs(RealClock().MonotonicNs() + 1'000'000);
    }
    return false;
  }

  PowerSwitch power_;
  std::unique_ptr<OrderedStore> store_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
  std::unique_ptr<EngineService> service_;
};

TEST_F(EngineServiceTest, AttachTuneRestoreDetach) {
  const auto id = service_->Attach("/run/a", "", agents::GoalKind::kBalanced, Mode::kAuto);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(*id, "model");
  ChangeQuery kept;
  kept.verdict = Verdict::kKeep;
  ASSERT_TRUE(Eventually([&] { return !service_->Changes(*id, kept)->empty(); }));

  ASSERT_TRUE(service_->Restore(*id, "operator:root").ok());
  ASSERT_TRUE(Eventually([&] { return service_->Changes(*id, kept)->size() == 2; }));
  const uint64_t change_id = service_->Changes(*id, kept)->front().id;
  EXPECT_EQ(service_->GetChange(change_id)->actor, "operator:root");
  ASSERT_TRUE(service_->Detach(*id, /*restore=*/false).ok());

  EXPECT_TRUE(service_->Nodes().empty());
  EXPECT_EQ(service_->Node(*id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(service_->Changes(*id, kept)->size(), 2U);  // the history stays
  service_.reset();
  EXPECT_EQ(nodes_["/run/a"]->model.ReadSettings()->current,
            nodes_["/run/a"]->model.space().Default());
  Open();
  EXPECT_TRUE(service_->Nodes().empty());
}

TEST_F(EngineServiceTest, AttachesAgainAtTheNextStart) {
  ASSERT_TRUE(service_->Attach("/run/a", "first", agents::GoalKind::kRead, Mode::kObserve).ok());

  Open();

  ASSERT_EQ(service_->Nodes().size(), 1U);
  EXPECT_EQ(service_->Nodes().front().id, "first");
  EXPECT_EQ(service_->Nodes().front().goal, agents::GoalKind::kRead);
  EXPECT_EQ(service_->Nodes().front().mode, Mode::kObserve);
  EXPECT_TRUE(Eventually([&] { return service_->Nodes().front().connected; }));
}

TEST_F(EngineServiceTest, SaysWhatIsWrong) {
  EXPECT_EQ(service_->Attach("/run/none", "", agents::GoalKind::kRead, Mode::kAuto).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(service_->Attach("/run/a", "a/b", agents::GoalKind::kRead, Mode::kAuto).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(service_->Attach("/run/a", "a", agents::GoalKind::kRead, Mode::kObserve).ok());
  EXPECT_EQ(service_->Attach("/run/a", "b", agents::GoalKind::kRead, Mode::kAuto).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(service_->Pause("nobody", "x", std::nullopt, "operator").code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(service_->Changes("nobody", {}).status().code(), absl::StatusCode::kNotFound);
  ChangeQuery query;
  query.limit = 0;
  EXPECT_EQ(service_->Changes("a", query).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->ReadSeries("a", 2, 1, 10).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EngineServiceTest, ARecommendationIsApprovedByItsIdAlone) {
  ASSERT_TRUE(service_->Attach("/run/a", "a", agents::GoalKind::kBalanced, Mode::kApprove).ok());
  ASSERT_TRUE(Eventually([&] { return !service_->Recommendations("")->empty(); }));
  const Recommendation advice = service_->Recommendations("a")->front();
  EXPECT_EQ(service_->Recommendations("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(service_->DecideRecommendation("r0", true, "", "operator:root").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(nodes_["/run/a"]->model.ReadSettings()->current,
            nodes_["/run/a"]->model.space().Default());

  ASSERT_TRUE(service_->DecideRecommendation(advice.id, true, "", "operator:root").ok());

  ASSERT_TRUE(
      Eventually([&] { return service_->GetChange(advice.change_id)->verdict == Verdict::kKeep; }));
}

TEST_F(EngineServiceTest, AtExitTheNodeKeepsWhatWasKeptOrIsAsItWas) {
  for (const OnExit on_exit : {OnExit::kKeep, OnExit::kRestore}) {
    SCOPED_TRACE(OnExitWord(on_exit));
    const std::string socket = "/run/" + std::string(OnExitWord(on_exit));
    nodes_.emplace(socket, std::make_unique<Node>(socket));
    Open();
    const std::string id(OnExitWord(on_exit));
    ASSERT_TRUE(service_->Attach(socket, id, agents::GoalKind::kBalanced, Mode::kAuto).ok());
    EXPECT_EQ(service_->Node(id)->on_exit, OnExit::kKeep);
    ASSERT_TRUE(service_->SetOnExit(id, on_exit, "operator:al").ok());
    ChangeQuery kept;
    kept.verdict = Verdict::kKeep;
    ASSERT_TRUE(Eventually([&] { return !service_->Changes(id, kept)->empty(); }));

    service_.reset();

    const env::SettingState state = *nodes_[socket]->model.ReadSettings();
    EXPECT_EQ(state.current == nodes_[socket]->model.space().Default(),
              on_exit == OnExit::kRestore);
    EXPECT_EQ(state.current, state.incumbent);
    Open();
    EXPECT_EQ(service_->Node(id)->on_exit, on_exit);
    const Change last = service_->Changes(id, kept)->front();
    EXPECT_EQ(last.actor, on_exit == OnExit::kRestore ? "ebbd: on_exit" : "agent:scripted");
    ASSERT_TRUE(service_->Detach(id, /*restore=*/false).ok());
  }
}

TEST_F(EngineServiceTest, DetachWithRestoreLeavesTheNodeAsItWas) {
  ASSERT_TRUE(service_->Attach("/run/a", "a", agents::GoalKind::kBalanced, Mode::kAuto).ok());
  ChangeQuery kept;
  kept.verdict = Verdict::kKeep;
  ASSERT_TRUE(Eventually([&] { return !service_->Changes("a", kept)->empty(); }));

  ASSERT_TRUE(service_->Detach("a", /*restore=*/true).ok());
  service_.reset();

  EXPECT_EQ(nodes_["/run/a"]->model.ReadSettings()->current,
            nodes_["/run/a"]->model.space().Default());
}

}  // namespace
}  // namespace ebb::engine
