#include "env/node/node_environment.h"

#include <filesystem>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/env/env_contract.h"
#include "tests/env/node/fake_node.h"

namespace ebb::env {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// A folder of its own below the temporary one, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() : path_("/tmp/ebb-node-XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class NodeHarness final : public EnvHarness {
 public:
  NodeHarness() : node_(folder_.path(), clock_) {
    auto environment = NodeEnvironment::Connect({.socket_path = node_.socket_path()}, clock_);
    EXPECT_TRUE(environment.ok()) << environment.status();
    if (environment.ok()) environment_ = std::move(*environment);
  }
  Environment& environment() override { return *environment_; }
  void AdvanceMs(uint64_t ms) override {
    clock_.AdvanceNs(ms * kNsPerMs);
    node_.Tick();
  }
  void Restart() override {
    node_.Stop();
    node_.Start();
  }
  FakeNode& node() { return node_; }
  ManualClock& clock() { return clock_; }

 private:
  ScratchFolder folder_;
  ManualClock clock_;
  FakeNode node_;
  std::unique_ptr<NodeEnvironment> environment_;
};

INSTANTIATE_TEST_SUITE_P(Node, EnvContract,
                         ::testing::Values(EnvContractCase{
                             "node", [] { return std::make_unique<NodeHarness>(); }}),
                         [](const auto& test) { return test.param.name; });

// One field of a result replaced.
FakeNode::Alteration Replace(const std::string& pointer, const Json& value) {
  return [=](const std::string& text) {
    Json result = Json::parse(text);
    result[Json::json_pointer(pointer)] = value;
    return result.dump();
  };
}

class NodeEnvironmentTest : public ::testing::Test {
 protected:
  Environment& env() { return harness_.environment(); }
  Observation Window() {
    absl::StatusOr<Observation> seen = env().Observe();
    EXPECT_TRUE(seen.ok()) << seen.status();
    return seen.ok() ? *seen : Observation{};
  }
  NodeHarness harness_;
};

TEST_F(NodeEnvironmentTest, KnowsTheNodeAndItsKnobs) {
  EXPECT_EQ(env().info().name, "fake");
  EXPECT_EQ(env().info().device_class, "disk");
  EXPECT_TRUE(env().space().Find("destage_watermark").has_value());
  EXPECT_EQ(env().space()[*env().space().Find("compression")].choices.size(), 4u);
  EXPECT_FALSE(env().space()[*env().space().Find("compression")].agent_owned);
}

TEST_F(NodeEnvironmentTest, MeasuresOneSecondOfTheClients) {
  Window();

  const Observation seen = Window();

  EXPECT_EQ(seen.metrics.seconds, 1);
  EXPECT_NEAR(seen.metrics.mean_in_flight, 8, 1e-6);
  // 8 clients, 5 ms a request: 1,600 a second.
  EXPECT_NEAR(static_cast<double>(seen.metrics.read.ops + seen.metrics.write.ops), 1600, 150);
  EXPECT_NEAR(seen.metrics.read.mean_ns, 5e6, 0.6e6);
  EXPECT_NEAR(seen.descriptor.mean_in_flight, 8, 1);
  EXPECT_EQ(seen.descriptor.offered_ops_per_s, 0);
  EXPECT_NEAR(seen.descriptor.working_set_bytes, 64.0 * kMiB, 16.0 * kMiB);
}

// Goal: a store that answers four times faster is the same load.
TEST_F(NodeEnvironmentTest, TheDescriptorDoesNotFollowTheSpeedOfTheStore) {
  Window();
  Window();
  const WorkloadDescriptor slow = Window().descriptor;

  harness_.node().set_service_ns(1.25e6);
  Window();
  Window();
  const Observation fast = Window();

  EXPECT_GT(fast.metrics.read.ops + fast.metrics.write.ops, 5000u);
  EXPECT_NEAR(fast.descriptor.mean_in_flight, slow.mean_in_flight, 0.1 * slow.mean_in_flight);
  EXPECT_EQ(fast.descriptor.offered_ops_per_s, slow.offered_ops_per_s);
  EXPECT_NEAR(fast.descriptor.read_share, slow.read_share, 0.05);
  EXPECT_NEAR(fast.descriptor.working_set_bytes, slow.working_set_bytes,
              0.2 * slow.working_set_bytes);
}

TEST_F(NodeEnvironmentTest, StaleNumbersVoidTheWindow) {
  Window();
  std::string frozen;
  harness_.node().Alter("metrics.get", [&](const std::string& result) {
    if (frozen.empty()) frozen = result;
    return frozen;
  });

  Window();
  const Observation stale = Window();
  harness_.node().Alter("metrics.get", nullptr);
  const Observation jumped = Window();
  const Observation good = Window();

  EXPECT_FALSE(stale.valid);
  EXPECT_THAT(stale.void_reason, HasSubstr("did not advance"));
  EXPECT_FALSE(jumped.valid) << "its start is older than it says";
  EXPECT_TRUE(good.valid) << good.void_reason;
}

TEST_F(NodeEnvironmentTest, ContradictoryNumbersVoidTheWindow) {
  Window();
  harness_.node().Alter("metrics.get", Replace("/gauges/dirty_bytes", 5000));

  const Observation seen = Window();

  EXPECT_FALSE(seen.valid);
  EXPECT_THAT(seen.void_reason, HasSubstr("5000 dirty bytes in a cache of 1000"));
}

TEST_F(NodeEnvironmentTest, AnAnswerThatDoesNotFitIsAnErrorAndNotACrash) {
  harness_.node().Alter("metrics.get", Replace("/ops/read", "many"));
  const absl::StatusOr<Observation> broken = env().Observe();
  harness_.node().Alter("metrics.get", nullptr);
  const Observation back = Window();
  const Observation next = Window();

  EXPECT_THAT(std::string(broken.status().message()), HasSubstr("ops.read"));
  EXPECT_FALSE(back.valid);
  EXPECT_THAT(back.void_reason, HasSubstr("away when this window began"));
  EXPECT_TRUE(next.valid) << next.void_reason;
}

TEST_F(NodeEnvironmentTest, ANodeThatIsAwayIsUnavailableUntilItIsBack) {
  Window();
  harness_.node().Stop();
  const uint64_t before_ns = harness_.clock().MonotonicNs();

  const absl::StatusOr<Observation> gone = env().Observe();
  const absl::StatusOr<Observation> still_gone = env().Observe();

  EXPECT_EQ(gone.status().code(), absl::StatusCode::kUnavailable) << gone.status();
  EXPECT_EQ(still_gone.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(harness_.clock().MonotonicNs(), before_ns + 2 * kNsPerS) << "it must not spin";
  harness_.node().Start();
  const Observation back = Window();
  EXPECT_FALSE(back.valid);
  EXPECT_THAT(back.void_reason, HasSubstr("restarted"));
  EXPECT_TRUE(Window().valid);
}

TEST_F(NodeEnvironmentTest, AForeignChangeShowsInTheWindowAndTheEvents) {
  Window();
  const uint64_t version = env().ReadSettings()->version;

  harness_.node().SetFromOutside(storage::KnobId::kDestageWatermark, 70);
  const Observation seen = Window();

  EXPECT_TRUE(seen.setting_changed);
  EXPECT_GT(seen.setting_version, version);
  EXPECT_EQ(seen.setting.values[*env().space().Find("destage_watermark")], 70);
}

TEST_F(NodeEnvironmentTest, ACallerThatComesBackLateGetsAFreshWindow) {
  Window();
  harness_.AdvanceMs(10'000);

  const Observation seen = Window();

  EXPECT_TRUE(seen.valid) << seen.void_reason;
  EXPECT_EQ(seen.metrics.seconds, 1);
}

TEST_F(NodeEnvironmentTest, ANodeThatRunsSomethingElseThanItAcceptedIsAnError) {
  Setting candidate = env().ReadSettings()->incumbent;
  candidate.values[*env().space().Find("destage_watermark")] = 60;
  harness_.node().Alter("knobs.get", Replace("/setting/destage_watermark", 61));
  LeaseTerms terms;
  terms.lease_ms = 1000;

  const absl::StatusOr<AppliedSetting> applied =
      env().Apply(candidate, env().ReadSettings()->version, terms);

  EXPECT_EQ(applied.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(applied.status().message()), HasSubstr("another setting"));
}

TEST(NodeEnvironmentConnectTest, NoNodeIsAClearError) {
  ManualClock clock;

  const auto environment =
      NodeEnvironment::Connect({.socket_path = "/nonexistent/control.sock"}, clock);

  EXPECT_FALSE(environment.ok());
  EXPECT_THAT(std::string(environment.status().message()), HasSubstr("/nonexistent/control.sock"));
}

}  // namespace
}  // namespace ebb::env
