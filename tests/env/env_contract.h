// EnvContract: what the engine relies on in every Environment, as an executable checklist.
//
// A test program includes this header and instantiates the suite with a harness for its
// environment (value-parameterized: INSTANTIATE_TEST_SUITE_P(Name, EnvContract, Values(...))).
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>

#include "env/environment.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::env {

// Owns an environment under a steady load and what it runs on.
class EnvHarness {
 public:
  virtual ~EnvHarness() = default;
  virtual Environment& environment() = 0;
  // Lets this much time pass without a call to the environment.
  virtual void AdvanceMs(uint64_t ms) = 0;
  virtual void Restart() = 0;
};

struct EnvContractCase {
  std::string name;
  std::function<std::unique_ptr<EnvHarness>()> make;
};
inline void PrintTo(const EnvContractCase& value, std::ostream* out) { *out << value.name; }

class EnvContract : public ::testing::TestWithParam<EnvContractCase> {
 protected:
  void SetUp() override {
    harness_ = GetParam().make();
    ASSERT_NE(harness_, nullptr);
  }
  Environment& env() { return harness_->environment(); }
  SettingState State() {
    absl::StatusOr<SettingState> state = env().ReadSettings();
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *state : SettingState{};
  }
  Observation Window() {
    absl::StatusOr<Observation> seen = env().Observe();
    EXPECT_TRUE(seen.ok()) << seen.status();
    return seen.ok() ? *seen : Observation{};
  }
  // The incumbent with the first knob that can move moved to its other end.
  Setting Candidate() {
    Setting setting = State().incumbent;
    for (size_t i = 0; i < env().space().size(); ++i) {
      const int64_t top = env().space().FromUnit(i, 1);
      const int64_t other = setting.values[i] == top ? env().space().FromUnit(i, 0) : top;
      if (other != setting.values[i]) {
        setting.values[i] = other;
        return setting;
      }
    }
    ADD_FAILURE() << "no knob can move";
    return setting;
  }
  AppliedSetting Apply(const Setting& candidate, uint64_t lease_ms = 60'000) {
    LeaseTerms terms;
    terms.lease_ms = lease_ms;
    terms.actor = "agent contract";
    terms.reason = "contract suite";
    absl::StatusOr<AppliedSetting> applied = env().Apply(candidate, State().version, terms);
    EXPECT_TRUE(applied.ok()) << applied.status();
    return applied.ok() ? *applied : AppliedSetting{};
  }
  // Numbers of events of `kind` after number `after`.
  size_t CountEvents(NodeEvent::Kind kind, uint64_t after = 0) {
    absl::StatusOr<std::vector<NodeEvent>> events = env().Events(after);
    EXPECT_TRUE(events.ok()) << events.status();
    size_t count = 0;
    if (events.ok()) {
      for (const NodeEvent& event : *events) count += event.kind == kind ? 1 : 0;
    }
    return count;
  }

  std::unique_ptr<EnvHarness> harness_;
};

TEST_P(EnvContract, DescribesItsKnobsAndAnswersWithALegalSetting) {
  const KnobSpace& space = env().space();
  std::set<std::string> names;
  for (const KnobSpec& spec : space.knobs()) names.insert(spec.name);

  EXPECT_GT(space.size(), 0u);
  EXPECT_EQ(names.size(), space.size());
  EXPECT_THAT(space.Faults(space.Default()), ::testing::IsEmpty());
  EXPECT_THAT(space.Faults(State().current), ::testing::IsEmpty());
  EXPECT_THAT(space.Faults(State().incumbent), ::testing::IsEmpty());
  EXPECT_FALSE(env().info().uuid.empty());
}

TEST_P(EnvContract, WindowsFollowEachOther) {
  const Observation first = Window();
  const Observation second = Window();

  EXPECT_EQ(second.sequence, first.sequence + 1);
  EXPECT_GT(second.monotonic_ns, first.monotonic_ns);
  EXPECT_GT(second.metrics.seconds, 0);
  EXPECT_TRUE(second.valid) << second.void_reason;
  EXPECT_FALSE(second.setting_changed);
  EXPECT_EQ(second.setting, State().current);
  EXPECT_EQ(second.setting_version, State().version);
}

TEST_P(EnvContract, WindowsAreConsistent) {
  Window();
  const Observation seen = Window();

  const WindowMetrics& m = seen.metrics;
  EXPECT_GT(m.read.ops + m.write.ops, 0u) << "the harness must run a load";
  for (const OpWindow* op : {&m.read, &m.write, &m.flush}) {
    EXPECT_LE(op->p50_ns, op->p99_ns);
    EXPECT_EQ(op->latency.count(), op->ops);
    EXPECT_EQ(op->ops == 0, op->p50_ns == 0);
  }
  EXPECT_LE(m.dirty_bytes, m.cache_space_bytes);
  EXPECT_LE(m.unique_bytes, m.logical_bytes);
  EXPECT_GE(seen.descriptor.read_share, 0);
  EXPECT_LE(seen.descriptor.read_share, 1);
}

TEST_P(EnvContract, ApplyPutsACandidateOnTrialAndKeepsTheIncumbent) {
  const SettingState before = State();
  const Setting candidate = Candidate();

  const AppliedSetting applied = Apply(candidate);

  EXPECT_GT(applied.version, before.version);
  EXPECT_FALSE(applied.lease.empty());
  const SettingState after = State();
  EXPECT_EQ(after.version, applied.version);
  EXPECT_EQ(after.current, candidate);
  EXPECT_EQ(after.incumbent, before.incumbent);
  EXPECT_EQ(after.lease, applied.lease);
}

TEST_P(EnvContract, TheWindowOfAChangeSaysSoAndTheNextDoesNot) {
  Window();
  const Setting candidate = Candidate();
  Apply(candidate);

  const Observation mixed = Window();
  const Observation clean = Window();

  EXPECT_TRUE(mixed.setting_changed);
  EXPECT_FALSE(clean.setting_changed);
  EXPECT_EQ(clean.setting, candidate);
}

TEST_P(EnvContract, StaleVersionIsAbortedAndChangesNothing) {
  const SettingState before = State();
  LeaseTerms terms;
  terms.lease_ms = 60'000;

  const absl::StatusOr<AppliedSetting> applied =
      env().Apply(Candidate(), before.version + 1000, terms);

  EXPECT_EQ(applied.status().code(), absl::StatusCode::kAborted) << applied.status();
  EXPECT_EQ(State().current, before.current);
  EXPECT_EQ(State().version, before.version);
}

TEST_P(EnvContract, IllegalSettingIsRefusedAndChangesNothing) {
  const SettingState before = State();
  Setting illegal = before.current;
  illegal.values[0] = env().space()[0].max + env().space()[0].step;
  LeaseTerms terms;
  terms.lease_ms = 60'000;

  const absl::StatusOr<AppliedSetting> applied = env().Apply(illegal, before.version, terms);
  const absl::StatusOr<uint64_t> forced = env().SetIncumbent(illegal, "operator", "a mistake");

  EXPECT_EQ(applied.status().code(), absl::StatusCode::kInvalidArgument) << applied.status();
  EXPECT_THAT(std::string(applied.status().message()), ::testing::HasSubstr(env().space()[0].name));
  EXPECT_EQ(forced.status().code(), absl::StatusCode::kInvalidArgument) << forced.status();
  EXPECT_EQ(State().current, before.current);
}

TEST_P(EnvContract, CommitMakesTheCandidateTheIncumbentWithoutMixingTheWindow) {
  const Setting candidate = Candidate();
  const AppliedSetting applied = Apply(candidate);
  Window();

  const absl::StatusOr<uint64_t> version = env().Commit(applied.lease);

  ASSERT_TRUE(version.ok()) << version.status();
  const SettingState after = State();
  EXPECT_EQ(after.version, *version);
  EXPECT_EQ(after.incumbent, candidate);
  EXPECT_EQ(after.lease, "");
  EXPECT_FALSE(Window().setting_changed);
  EXPECT_EQ(CountEvents(NodeEvent::Kind::kCommitted), 1u);
}

TEST_P(EnvContract, RevertGoesBackToTheIncumbent) {
  const SettingState before = State();
  const AppliedSetting applied = Apply(Candidate());

  const absl::StatusOr<uint64_t> version = env().Revert(applied.lease, "no gain");

  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_GT(*version, applied.version);
  EXPECT_EQ(State().current, before.incumbent);
  EXPECT_EQ(State().lease, "");
  EXPECT_EQ(CountEvents(NodeEvent::Kind::kReverted), 1u);
}

TEST_P(EnvContract, ALeaseThatRunsOutRevertsByItself) {
  const SettingState before = State();
  Apply(Candidate(), /*lease_ms=*/500);

  harness_->AdvanceMs(700);

  EXPECT_EQ(State().current, before.incumbent);
  EXPECT_EQ(State().lease, "");
  EXPECT_EQ(CountEvents(NodeEvent::Kind::kLeaseExpired), 1u);
}

TEST_P(EnvContract, ARenewedLeaseHolds) {
  const Setting candidate = Candidate();
  const AppliedSetting applied = Apply(candidate, /*lease_ms=*/500);

  harness_->AdvanceMs(300);
  ASSERT_TRUE(env().Renew(applied.lease, 1'000).ok());
  harness_->AdvanceMs(500);

  EXPECT_EQ(State().current, candidate);
}

TEST_P(EnvContract, ALeaseThatIsGoneIsNotFound) {
  const AppliedSetting applied = Apply(Candidate());
  ASSERT_TRUE(env().Revert(applied.lease, "over").ok());

  EXPECT_EQ(env().Renew(applied.lease, 1'000).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(env().Commit(applied.lease).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(env().Revert(applied.lease, "again").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(EnvContract, SetIncumbentEndsATrial) {
  const Setting before = State().incumbent;
  const AppliedSetting applied = Apply(Candidate());

  const absl::StatusOr<uint64_t> version = env().SetIncumbent(before, "operator alice", "restore");

  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(State().current, before);
  EXPECT_EQ(State().incumbent, before);
  EXPECT_EQ(env().Commit(applied.lease).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(EnvContract, EventsAreNumberedWithoutGapsAndReadFromANumberOn) {
  const AppliedSetting applied = Apply(Candidate());
  ASSERT_TRUE(env().Revert(applied.lease, "over").ok());

  const absl::StatusOr<std::vector<NodeEvent>> all = env().Events(0);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_GE(all->size(), 2u);
  for (size_t i = 1; i < all->size(); ++i) {
    EXPECT_EQ((*all)[i].number, (*all)[i - 1].number + 1);
  }
  const absl::StatusOr<std::vector<NodeEvent>> none = env().Events(all->back().number);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(*none, ::testing::IsEmpty());
}

// Goal: a restart of the node must neither leave a candidate in force nor pass for a measurement.
TEST_P(EnvContract, ARestartEndsTheTrialAndVoidsTheWindow) {
  const SettingState before = State();
  Window();
  Apply(Candidate());
  const uint64_t epoch = env().info().epoch;

  harness_->Restart();
  const Observation torn = Window();
  const Observation next = Window();

  EXPECT_FALSE(torn.valid);
  EXPECT_THAT(torn.void_reason, ::testing::HasSubstr("restart"));
  EXPECT_TRUE(next.valid) << next.void_reason;
  EXPECT_NE(env().info().epoch, epoch);
  EXPECT_EQ(State().current, before.incumbent);
  EXPECT_EQ(State().lease, "");
}

// Goal: the tuner must not take its own effect for a change of the load.
TEST_P(EnvContract, TheDescriptorDoesNotFollowTheKnobs) {
  Window();
  Window();
  const WorkloadDescriptor before = Window().descriptor;
  Apply(Candidate());
  Window();
  Window();
  const WorkloadDescriptor after = Window().descriptor;

  EXPECT_NEAR(after.read_share, before.read_share, 0.05);
  EXPECT_NEAR(after.mean_in_flight, before.mean_in_flight, 0.05 * before.mean_in_flight);
  EXPECT_NEAR(after.offered_ops_per_s, before.offered_ops_per_s, 0.05 * before.offered_ops_per_s);
  EXPECT_NEAR(after.mean_read_bytes, before.mean_read_bytes, 0.05 * before.mean_read_bytes);
  EXPECT_NEAR(after.working_set_bytes, before.working_set_bytes, 0.2 * before.working_set_bytes);
}

}  // namespace ebb::env
