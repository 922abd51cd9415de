// Each trip condition: when it fires, and when it must not.
#include "storage-backend/control/trip_wire.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kStepNs = 100 * kNsPerMs;

// Plays a node's cumulative metrics in steps of 100 ms, counted from the start of a lease.
class TripWireTest : public testing::Test {
 protected:
  void Watch(const TripConditions& conditions) { wire_.emplace(conditions, now_); }

  void Reads(uint64_t count, uint64_t latency_us) {
    now_.read.Record(latency_us * kNsPerUs, count);
    now_.ops += count;
  }
  void Writes(uint64_t count, uint64_t latency_us) {
    now_.write.Record(latency_us * kNsPerUs, count);
    now_.ops += count;
  }

  std::optional<TripReading> Step(double in_flight = 1) {
    now_.now_ns += kStepNs;
    now_.in_flight_ns_sum += static_cast<uint64_t>(in_flight * static_cast<double>(kStepNs));
    return wire_->Observe(now_);
  }

  TripSample now_;
  std::optional<TripWire> wire_;
};

TEST_F(TripWireTest, NothingTripsWithoutConditions) {
  Watch({});
  now_.errors = 1000;
  now_.dirty_share = 1;
  Reads(1000, 1'000'000);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Step());
}

TEST_F(TripWireTest, ReadLatencyTripsOnItsP99AndSaysTheReading) {
  Watch({.read_p99_us_max = 2000});
  Reads(500, 100);
  EXPECT_FALSE(Step());

  Reads(100, 10'000);
  const std::optional<TripReading> trip = Step();

  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->condition, "read_p99_us_max");
  EXPECT_NEAR(trip->value, 10'000, 700);
  EXPECT_EQ(trip->limit, 2000);
  EXPECT_NE(trip->Text().find("the limit 2000"), std::string::npos);
}

TEST_F(TripWireTest, WriteLatencyIsJudgedApartFromReads) {
  Watch({.write_p99_us_max = 2000});
  Reads(1000, 50'000);
  EXPECT_FALSE(Step());
  Writes(100, 5000);
  const std::optional<TripReading> trip = Step();
  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->condition, "write_p99_us_max");
}

TEST_F(TripWireTest, TwoOutliersAmongFewRequestsAreNoTripThreeAre) {
  Watch({.read_p99_us_max = 2000});
  Reads(30, 100);
  Reads(2, 100'000);
  EXPECT_FALSE(Step());
  Reads(1, 100'000);
  EXPECT_TRUE(Step());
}

TEST_F(TripWireTest, WhatHappenedBeforeTheLeaseDoesNotCount) {
  Reads(1000, 1'000'000);
  now_.errors = 5;
  Watch({.read_p99_us_max = 2000, .errors_max = 0});
  Reads(10, 100);
  EXPECT_FALSE(Step());
}

TEST_F(TripWireTest, LatencyBeyondTheWindowIsForgottenWhenThereAreEnoughRequests) {
  Watch({.read_p99_us_max = 2000});
  Reads(2, 100'000);
  EXPECT_FALSE(Step());
  for (int i = 0; i < 6; ++i) {
    Reads(30, 100);
    EXPECT_FALSE(Step());
  }
  Reads(2, 100'000);  // with the two of 700 ms ago they would be four
  EXPECT_FALSE(Step());
}

// A candidate so slow that 500 ms hold one request only must still be convicted.
TEST_F(TripWireTest, LatencyWindowWidensWhileRequestsAreFew) {
  Watch({.read_p99_us_max = 2000});
  int steps = 0;
  std::optional<TripReading> trip;
  while (!trip && steps < 30) {
    if (steps % 5 == 0) Reads(1, 400'000);
    trip = Step();
    ++steps;
  }
  ASSERT_TRUE(trip);
  EXPECT_EQ(steps, 11);  // at the third request
}

TEST_F(TripWireTest, ErrorsTripAboveTheirCountSinceTheLeaseBegan) {
  Watch({.errors_max = 2});
  now_.errors = 2;
  EXPECT_FALSE(Step());
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(Step());  // no window forgets them
  now_.errors = 3;
  const std::optional<TripReading> trip = Step();
  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->condition, "errors_max");
  EXPECT_EQ(trip->value, 3);
}

TEST_F(TripWireTest, LogFillTripsOnItsSlopeOverOneSecond) {
  Watch({.log_fill_per_s_max = 0.3});
  now_.dirty_share = 0.25;  // a jump: not judged before a whole second is known
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(Step());
  EXPECT_FALSE(Step()) << "0.25 a second is within the limit";
  now_.dirty_share = 0.60;
  const std::optional<TripReading> trip = Step();
  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->condition, "log_fill_per_s_max");
  EXPECT_NEAR(trip->value, 0.35, 1e-9);
}

TEST_F(TripWireTest, EmptyingLogIsNoTrip) {
  now_.dirty_share = 0.9;
  Watch({.log_fill_per_s_max = 0.1});
  for (int i = 0; i < 30; ++i) {
    now_.dirty_share -= 0.02;
    EXPECT_FALSE(Step());
  }
}

TEST_F(TripWireTest, ThroughputTripsOnlyAfterAWholeSecond) {
  Watch({.throughput_ops_min = 1000});
  for (int i = 0; i < 9; ++i) {
    Reads(10, 100);
    EXPECT_FALSE(Step()) << i;
  }
  Reads(10, 100);
  const std::optional<TripReading> trip = Step();
  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->condition, "throughput_ops_min");
  EXPECT_NEAR(trip->value, 100, 1e-6);
}

TEST_F(TripWireTest, IdleOrPausingClientIsNoThroughputTrip) {
  Watch({.throughput_ops_min = 1000});
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(Step(/*in_flight=*/0));
  // Waits most of the time, but pauses for 100 ms in every second.
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(Step(i % 9 == 0 ? 0.1 : 4));
}

TEST_F(TripWireTest, StalledClientIsAThroughputTrip) {
  Watch({.throughput_ops_min = 10});
  std::optional<TripReading> trip;
  for (int i = 0; i < 10 && !trip; ++i) trip = Step(/*in_flight=*/16);
  ASSERT_TRUE(trip);
  EXPECT_EQ(trip->value, 0);
}

TEST_F(TripWireTest, EnoughThroughputIsNoTrip) {
  Watch({.throughput_ops_min = 1000});
  for (int i = 0; i < 30; ++i) {
    Reads(100, 100);
    EXPECT_FALSE(Step());
  }
}

}  // namespace
}  // namespace ebb::storage
