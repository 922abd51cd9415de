#include "engine/guard/envelope.h"

#include <gtest/gtest.h>

#include "engine/guard/trip_wires.h"

namespace ebb::engine {
namespace {

env::KnobSpace Space() {
  std::vector<env::KnobSpec> knobs(4);
  for (size_t i = 0; i < knobs.size(); ++i) {
    knobs[i].name = std::string("knob_") + static_cast<char>('a' + i);
    knobs[i].max = 100;
    knobs[i].default_value = 50;
  }
  knobs[3].agent_owned = false;
  return env::KnobSpace(knobs);
}

class EnvelopeTest : public testing::Test {
 protected:
  std::string Fault(std::vector<int64_t> candidate, bool predicted = false, uint64_t window = 10) {
    return envelope_.CandidateFault(space_, space_.Default(), env::Setting{std::move(candidate)},
                                    frozen_, predicted, window);
  }
  env::KnobSpace space_ = Space();
  std::vector<bool> frozen_ = {false, true, false, false};
  EnvelopeConfig config_{.trials_per_hour_max = 3};
  Envelope envelope_{config_, 1.0};
};

TEST_F(EnvelopeTest, AllowsALegalMove) { EXPECT_EQ(Fault({60, 50, 50, 50}), ""); }

TEST_F(EnvelopeTest, NamesWhatIsWrongWithACandidate) {
  EXPECT_NE(Fault({60, 50, 50}).find("number of knobs"), std::string::npos);
  EXPECT_NE(Fault({101, 50, 50, 50}).find("knob_a"), std::string::npos);
  EXPECT_NE(Fault({50, 60, 50, 50}).find("knob_b is pinned"), std::string::npos);
  EXPECT_NE(Fault({50, 50, 50, 60}).find("knob_d belongs to the operator"), std::string::npos);
  EXPECT_NE(Fault({50, 50, 50, 50}).find("changes nothing"), std::string::npos);
}

TEST_F(EnvelopeTest, ManyKnobsNeedAPrediction) {
  frozen_.assign(4, false);
  config_.knobs_per_trial_max = 1;
  envelope_ = Envelope(config_, 1.0);

  EXPECT_NE(Fault({60, 60, 50, 50}).find("2 knobs at once"), std::string::npos);
  EXPECT_EQ(Fault({60, 60, 50, 50}, /*predicted=*/true), "");
}

TEST_F(EnvelopeTest, ARevertedMoveIsTabuForAWhileAndThenCoolsDown) {
  envelope_.NoteReverted(space_.Default(), env::Setting{{90, 50, 50, 50}}, 10);

  EXPECT_NE(Fault({91, 50, 50, 50}, false, 11).find("reverted"), std::string::npos);
  EXPECT_EQ(Fault({70, 50, 50, 50}, false, 11), "");
  EXPECT_EQ(Fault({90, 50, 50, 50}, false, 10 + config_.tabu_windows), "");
  envelope_.ForgetTabu();
  EXPECT_EQ(Fault({90, 50, 50, 50}, false, 11), "");
  Situation situation{.window = 11, .usable_windows_in_row = 5};
  EXPECT_NE(envelope_.SituationFault(situation).find("cooling down"), std::string::npos);
  situation.window = 10 + config_.cool_down_windows;
  EXPECT_EQ(envelope_.SituationFault(situation), "");
}

TEST_F(EnvelopeTest, WaitsInTrouble) {
  EXPECT_NE(envelope_.SituationFault({.draining_by_operator = true, .usable_windows_in_row = 9}),
            "");
  EXPECT_NE(envelope_.SituationFault({.dirty_share = 0.97, .usable_windows_in_row = 9}), "");
  EXPECT_NE(envelope_.SituationFault({.usable_windows_in_row = 1}), "");
}

TEST_F(EnvelopeTest, NeverTouchesWhatTheConfigurationNames) {
  config_.never_touch = {"knob_a"};
  envelope_ = Envelope(config_, 1.0);

  EXPECT_EQ(Fault({60, 50, 50, 50}), "knob_a is on the never-touch list of the configuration");
  EXPECT_EQ(Fault({50, 50, 60, 50}), "");
  EXPECT_EQ(envelope_.ConfigFault(space_), "");
}

TEST_F(EnvelopeTest, AMistypedNeverTouchNameStopsEverythingBecauseSomeKnobIsMeant) {
  config_.never_touch = {"knob_a", "knbo_b", "zzz"};
  envelope_ = Envelope(config_, 1.0);

  EXPECT_EQ(envelope_.ConfigFault(space_),
            "never_touch in the configuration names what is no knob of this node: 'knbo_b' (did "
            "you mean 'knob_b'?), 'zzz'");
}

TEST_F(EnvelopeTest, TheReadCacheIsAtMostATenthOfTheHostsMemory) {
  env::KnobSpec knob;
  knob.name = "read_cache_bytes";
  knob.kind = env::KnobKind::kBytes;
  knob.max = int64_t{64} << 30;
  knob.step = 1 << 20;
  const env::KnobSpace space({knob});
  config_.host_memory_bytes = uint64_t{16} << 30;
  config_.knobs_per_trial_max = 1;
  envelope_ = Envelope(config_, 1.0);
  const auto fault = [&](int64_t mib) {
    return envelope_.CandidateFault(space, env::Setting{{0}}, env::Setting{{mib << 20}}, {}, false,
                                    10);
  };

  EXPECT_EQ(fault(1638), "");
  EXPECT_EQ(fault(1639),
            "read_cache_bytes would be 1.6 GiB, more than 10 % of the host's 16 GiB of memory");
  EXPECT_EQ(envelope_.Bounds(space, 0, 0).second, int64_t{1638} << 20);
}

TEST_F(EnvelopeTest, BoundsAreOneStepFromHereAndLegal) {
  config_.step_unit_max = 0.2;
  envelope_ = Envelope(config_, 1.0);

  EXPECT_EQ(envelope_.Bounds(space_, 0, 50), (std::pair<int64_t, int64_t>{30, 70}));
  EXPECT_EQ(envelope_.Bounds(space_, 0, 90), (std::pair<int64_t, int64_t>{70, 100}));
}

TEST_F(EnvelopeTest, ARestartDoesNotRenewTheBudget) {
  for (const double seconds_ago : {10.0, 600.0, 3000.0, 3500.0}) {
    envelope_.NotePastTrial(seconds_ago);
  }

  EXPECT_NE(envelope_.SituationFault({.window = 1, .usable_windows_in_row = 9}), "");
  EXPECT_EQ(envelope_.SituationFault({.window = 601, .usable_windows_in_row = 9}), "");
}

TEST_F(EnvelopeTest, SpendsItsBudgetOnceAnHour) {
  for (uint64_t window : {100U, 200U, 300U}) envelope_.NoteTrialStarted(window);

  EXPECT_NE(envelope_.SituationFault({.window = 400, .usable_windows_in_row = 9}), "");
  EXPECT_EQ(envelope_.SituationFault({.window = 3701, .usable_windows_in_row = 9}), "");
}

TEST(TripWiresTest, StandFarOutsideOfTheIncumbent) {
  env::Observation observation;
  observation.metrics.seconds = 1;
  observation.metrics.read.ops = 5000;
  observation.metrics.read.p99_ns = 8e6;

  const env::TripConditions trips = TripsFor({observation}, TripWireConfig{});

  EXPECT_EQ(trips.read_p99_us_max, 40'000);
  EXPECT_FALSE(trips.write_p99_us_max.has_value());
  EXPECT_EQ(trips.throughput_ops_min, 1000);
  EXPECT_EQ(trips.errors_max, 0U);
}

TEST(TripWiresTest, OnlyErrorsTripWithoutWindows) {
  const env::TripConditions trips = TripsFor({}, TripWireConfig{});

  EXPECT_EQ(trips.errors_max, 0U);
  EXPECT_FALSE(trips.throughput_ops_min.has_value());
}

TEST_F(EnvelopeTest, ATabuMoveIsTabuUnderItsOwnLoadOnly) {
  const env::Setting candidate{{60, 50, 50, 50}};
  envelope_.SetContext("c1");
  envelope_.NoteReverted(space_.Default(), candidate, 10);
  ASSERT_NE(Fault({60, 50, 50, 50}, false, 20), "");

  envelope_.SetContext("");
  envelope_.SetContext("c2");
  EXPECT_EQ(Fault({60, 50, 50, 50}, false, 20), "");
  envelope_.SetContext("c1");

  EXPECT_NE(Fault({60, 50, 50, 50}, false, 20), "");
}

TEST_F(EnvelopeTest, WhatFailedUnderALoadWithoutANameIsForgottenWithIt) {
  envelope_.NoteReverted(space_.Default(), env::Setting{{60, 50, 50, 50}}, 10);
  ASSERT_NE(Fault({60, 50, 50, 50}, false, 20), "");

  envelope_.SetContext("c1");
  envelope_.SetContext("");

  EXPECT_EQ(Fault({60, 50, 50, 50}, false, 20), "");
}

}  // namespace
}  // namespace ebb::engine
