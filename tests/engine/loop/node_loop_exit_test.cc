// What a node is left with: coupled knobs return together, and values that are no longer legal do
// not stop the rest.
#include <gtest/gtest.h>

#include "tests/engine/loop/loop_test_helpers.h"

namespace ebb::engine {
namespace {

// "inner" may never be above "outer", as a unit may never be larger than its extent; both have
// moved from 20 to 60 since Ebb was attached.
env::SimpleModelConfig CoupledModel(int64_t outer_max = 100) {
  env::SimpleModelConfig model = env::DefaultModelConfig();
  model.knobs = {{.name = "outer", .max = outer_max, .default_value = 20},
                 {.name = "inner", .max = 100, .default_value = 20, .coupled_with = "outer"}};
  model.responses = {{.best_unit = 0.6, .read_depth = 2, .write_depth = 2},
                     {.best_unit = 0.6, .read_depth = 2, .write_depth = 2}};
  return model;
}

// Refuses every setting that breaks the coupling, as a store does.
class CoupledEnvironment final : public env::Environment {
 public:
  explicit CoupledEnvironment(env::Environment& environment) : environment_(environment) {}
  const env::EnvironmentInfo& info() const override { return environment_.info(); }
  const env::KnobSpace& space() const override { return environment_.space(); }
  absl::StatusOr<env::Observation> Observe() override { return environment_.Observe(); }
  double window_seconds() const override { return environment_.window_seconds(); }
  absl::StatusOr<env::SettingState> ReadSettings() override { return environment_.ReadSettings(); }
  absl::StatusOr<env::AppliedSetting> Apply(const env::Setting& candidate, uint64_t base_version,
                                            const env::LeaseTerms& terms) override {
    if (!Fits(candidate)) return absl::InvalidArgumentError("inner is above outer");
    return environment_.Apply(candidate, base_version, terms);
  }
  absl::Status Renew(const std::string& lease, uint64_t lease_ms) override {
    return environment_.Renew(lease, lease_ms);
  }
  absl::StatusOr<uint64_t> Commit(const std::string& lease) override {
    return environment_.Commit(lease);
  }
  absl::StatusOr<uint64_t> Revert(const std::string& lease, const std::string& reason) override {
    return environment_.Revert(lease, reason);
  }
  absl::StatusOr<uint64_t> SetIncumbent(const env::Setting& setting, const std::string& actor,
                                        const std::string& reason) override {
    if (!Fits(setting)) return absl::InvalidArgumentError("inner is above outer");
    return environment_.SetIncumbent(setting, actor, reason);
  }
  absl::StatusOr<std::vector<env::NodeEvent>> Events(uint64_t after) override {
    return environment_.Events(after);
  }

 private:
  static bool Fits(const env::Setting& setting) { return setting.values[1] <= setting.values[0]; }
  env::Environment& environment_;
};

// A loop over a record that says what was kept since attach.
class NodeLoopExitTest : public testing::Test {
 protected:
  void Start(env::Environment& node, OnExit on_exit, const NamedSetting& before_attach,
             const NamedSetting& incumbent) {
    NodeRecord record;
    record.id = "node-a";
    record.mode = Mode::kObserve;
    record.on_exit = on_exit;
    record.before_attach = record.standard = before_attach;
    record.incumbent = incumbent;
    NodeLoopParts parts{
        clock_,
        *history_,
        [&node](const std::string&) -> absl::StatusOr<std::unique_ptr<env::Environment>> {
          return std::make_unique<CoupledEnvironment>(node);
        },
        [](const std::string&, const env::EnvironmentInfo&,
           const env::KnobSpace&) -> absl::StatusOr<std::unique_ptr<agents::Agent>> {
          return std::make_unique<ScriptedAgent>(std::vector<ScriptedAgent::Move>{});
        },
        {}};
    loop_ = std::make_unique<NodeLoop>(parts, record, nullptr);
    loop_->RunOneWindow();
    loop_->RunOneWindow();
    ASSERT_TRUE(loop_->Status().connected) << loop_->Status().why;
  }
  std::vector<Change> Changes() { return *history_->Changes("node-a", {}); }

  ManualClock clock_;
  std::unique_ptr<History> history_ = MakeMemoryHistory();
  std::unique_ptr<NodeLoop> loop_;
};

TEST_F(NodeLoopExitTest, CoupledKnobsReturnTogetherInOneCall) {
  env::SimpleModelEnvironment node(CoupledModel(), clock_);
  ASSERT_TRUE(node.SetIncumbent(env::Setting{{60, 60}}, "ebbd", "kept").ok());
  const size_t calls_before = node.calls().size();
  Start(node, OnExit::kRestore, {{"outer", 20}, {"inner", 20}}, {{"outer", 60}, {"inner", 60}});

  loop_->RestoreAtExit();

  EXPECT_EQ(node.ReadSettings()->current, (env::Setting{{20, 20}}));
  EXPECT_EQ(node.calls().size(), calls_before + 1);
  ASSERT_EQ(Changes().size(), 1U);
  EXPECT_EQ(Changes().front().verdict, Verdict::kKeep);
  EXPECT_EQ(Changes().front().knobs.size(), 2U);
  EXPECT_FALSE(loop_->record().open.has_value());
}

TEST_F(NodeLoopExitTest, KeepLeavesTheNodeAlone) {
  env::SimpleModelEnvironment node(CoupledModel(), clock_);
  ASSERT_TRUE(node.SetIncumbent(env::Setting{{60, 60}}, "ebbd", "kept").ok());
  const size_t calls_before = node.calls().size();
  Start(node, OnExit::kKeep, {{"outer", 20}, {"inner", 20}}, {{"outer", 60}, {"inner", 60}});

  loop_->RestoreAtExit();

  EXPECT_EQ(node.calls().size(), calls_before);
  EXPECT_TRUE(Changes().empty());
}

TEST_F(NodeLoopExitTest, AValueThatIsNoLongerLegalBecomesTheNearestOneAndIsNamed) {
  env::SimpleModelEnvironment node(CoupledModel(/*outer_max=*/70), clock_);
  Start(node, OnExit::kRestore, {{"outer", 90}, {"inner", 50}}, {{"outer", 20}, {"inner", 20}});

  loop_->RestoreAtExit();

  EXPECT_EQ(node.ReadSettings()->current, (env::Setting{{70, 50}}));
  ASSERT_EQ(Changes().size(), 1U);
  EXPECT_EQ(Changes().front().reason,
            "back to the setting from before attach; outer was 90, which this node does not allow "
            "any more: 70");
}

TEST_F(NodeLoopExitTest, ARestoreThatTheNodeRefusesEndsVoidAndBlocksNothing) {
  env::SimpleModelEnvironment node(CoupledModel(/*outer_max=*/40), clock_);
  Start(node, OnExit::kRestore, {{"outer", 90}, {"inner", 80}}, {{"outer", 20}, {"inner", 20}});

  loop_->RestoreAtExit();

  EXPECT_EQ(node.ReadSettings()->current, (env::Setting{{20, 20}}));
  ASSERT_EQ(Changes().size(), 1U);
  EXPECT_EQ(Changes().front().verdict, Verdict::kVoid);
  EXPECT_EQ(Changes().front().verdict_reason,
            "the node refused it: inner is above outer; the node keeps its setting");
  EXPECT_FALSE(loop_->record().open.has_value());
  loop_->RunOneWindow();
  EXPECT_TRUE(loop_->Status().connected);
}

}  // namespace
}  // namespace ebb::engine
