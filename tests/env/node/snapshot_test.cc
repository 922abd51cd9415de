#include "env/node/snapshot.h"

#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;

NodeSnapshot Base() {
  NodeSnapshot snapshot;
  snapshot.wall_ms = 1'700'000'000'000;
  snapshot.monotonic_ns = 100 * kSecond;
  snapshot.epoch = 5;
  snapshot.setting_version = 3;
  snapshot.read.ops = 1000;
  snapshot.read.bytes = 4096 * 1000;
  snapshot.read.latency.Record(200'000, 1000);
  snapshot.write.ops = 500;
  snapshot.write.bytes = 4096 * 500;
  snapshot.write.latency.Record(50'000, 500);
  snapshot.counters = {{"read_blocks_dram", 100},
                       {"read_blocks_cache", 300},
                       {"read_blocks_capacity", 600},
                       {"destaged_blocks", 400},
                       {"capacity_written_bytes", 1'000'000},
                       {"throttle_ns", 0},
                       {"in_flight_ns_sum", 7 * kSecond},
                       {"busy_cpu_ns", 2 * kSecond}};
  snapshot.gauges = {{"cache_space_bytes", 1000}, {"dirty_bytes", 300},  {"clean_bytes", 200},
                     {"free_bytes", 500},         {"dirty_share", 0.4},  {"draining", 0},
                     {"logical_bytes", 900},      {"unique_bytes", 600}, {"physical_bytes", 700}};
  return snapshot;
}

// One second and some traffic after Base().
NodeSnapshot Later() {
  NodeSnapshot snapshot = Base();
  snapshot.monotonic_ns += kSecond;
  snapshot.read.ops += 200;
  snapshot.read.bytes += 200 * 8192;
  snapshot.read.latency.Record(1'000'000, 198);
  snapshot.read.latency.Record(9'000'000, 2);
  snapshot.write.ops += 10;
  snapshot.write.bytes += 10 * 4096;
  snapshot.write.errors += 1;
  snapshot.write.latency.Record(50'000, 10);
  snapshot.counters["read_blocks_dram"] += 50;
  snapshot.counters["read_blocks_cache"] += 50;
  snapshot.counters["read_blocks_capacity"] += 300;
  snapshot.counters["destaged_blocks"] += 25;
  snapshot.counters["throttle_ns"] += kSecond / 4;
  snapshot.counters["in_flight_ns_sum"] += 16 * kSecond;
  snapshot.counters["busy_cpu_ns"] += kSecond / 2;
  return snapshot;
}

const WindowLimits kLimits = {.expected_seconds = 1, .processors = 2};

TEST(SnapshotTest, AWindowIsTheDifferenceOfTwo) {
  std::string reason;

  const WindowMetrics window = MeasureWindow(Base(), Later(), kLimits, reason);

  ASSERT_EQ(reason, "");
  EXPECT_EQ(window.seconds, 1);
  EXPECT_EQ(window.read.ops, 200u);
  EXPECT_EQ(window.read.bytes, 200u * 8192);
  EXPECT_NEAR(window.read.p50_ns, 1e6, 0.07e6);
  EXPECT_NEAR(window.read.mean_ns, 1.08e6, 1);
  EXPECT_EQ(window.read.latency.count(), 200u);
  EXPECT_EQ(window.write.ops, 10u);
  EXPECT_EQ(window.write.errors, 1u);
  EXPECT_EQ(window.flush.p99_ns, 0);
  EXPECT_EQ(window.mean_in_flight, 16);
  EXPECT_EQ(window.read_hit_share, 0.25);
  EXPECT_EQ(window.destaged_bytes, 25u * 4096);
  EXPECT_EQ(window.throttle_seconds, 0.25);
  EXPECT_EQ(window.cpu_seconds, 0.5);
  EXPECT_EQ(window.dirty_bytes, 300u);
  EXPECT_EQ(window.physical_bytes, 700u);
}

struct Fault {
  const char* name;
  std::function<void(NodeSnapshot& before, NodeSnapshot& after)> inject;
  const char* sentence;
};

class SnapshotFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(SnapshotFaultTest, VoidsTheWindowWithASentence) {
  NodeSnapshot before = Base();
  NodeSnapshot after = Later();
  GetParam().inject(before, after);
  std::string reason;

  const WindowMetrics window = MeasureWindow(before, after, kLimits, reason);

  EXPECT_THAT(reason, HasSubstr(GetParam().sentence));
  EXPECT_EQ(window.read.ops, 0u) << "nothing of a void window may be used";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, SnapshotFaultTest,
    ::testing::Values(
        Fault{"restart", [](NodeSnapshot&, NodeSnapshot& after) { after.epoch = 6; }, "restarted"},
        Fault{"repeated", [](NodeSnapshot& before, NodeSnapshot& after) { after = before; },
              "clock did not advance"},
        Fault{"clock_back",
              [](NodeSnapshot&, NodeSnapshot& after) { after.monotonic_ns = 99 * kSecond; },
              "clock did not advance"},
        Fault{"stale",
              [](NodeSnapshot&, NodeSnapshot& after) { after.monotonic_ns -= kSecond / 2; },
              "moved 0.50 s in a window of 1.00 s"},
        Fault{"ops_back", [](NodeSnapshot&, NodeSnapshot& after) { after.read.ops = 999; },
              "counter read.ops went back from 1000 to 999"},
        Fault{"errors_back", [](NodeSnapshot& before, NodeSnapshot&) { before.write.errors = 9; },
              "counter write.errors went back"},
        Fault{"histogram_back",
              [](NodeSnapshot& before, NodeSnapshot&) { before.read.latency.Record(77'000); },
              "histogram of read went back"},
        Fault{"counter_back",
              [](NodeSnapshot&, NodeSnapshot& after) { after.counters["destaged_blocks"] = 1; },
              "counter destaged_blocks went back from 400 to 1"},
        Fault{"counter_gone",
              [](NodeSnapshot&, NodeSnapshot& after) {
                after.counters.erase("throttle_ns");
                after.counters.erase("busy_cpu_ns");
              },
              "counter busy_cpu_ns went back"},
        Fault{"rate", [](NodeSnapshot&, NodeSnapshot& after) { after.read.ops += 100'000'000; },
              "impossible rate"},
        Fault{"bandwidth",
              [](NodeSnapshot&, NodeSnapshot& after) { after.write.bytes += UINT64_C(1) << 50; },
              "impossible rate"},
        Fault{"bytes_without_ops",
              [](NodeSnapshot&, NodeSnapshot& after) { after.flush.bytes += 1; },
              "1 bytes of flush without an operation"},
        Fault{"latencies_missing", [](NodeSnapshot&, NodeSnapshot& after) { after.read.ops += 5; },
              "205 read operations, but 200 latencies"},
        Fault{"in_flight",
              [](NodeSnapshot&, NodeSnapshot& after) {
                after.counters["in_flight_ns_sum"] += UINT64_C(1) << 62;
              },
              "requests in flight"},
        Fault{"processors",
              [](NodeSnapshot&, NodeSnapshot& after) {
                after.counters["busy_cpu_ns"] += 3 * kSecond;
              },
              "3.50 processor seconds in 1.00 s"},
        Fault{"not_a_number",
              [](NodeSnapshot&, NodeSnapshot& after) { after.gauges["dirty_share"] = NAN; },
              "dirty_share is nan"},
        Fault{"negative",
              [](NodeSnapshot&, NodeSnapshot& after) { after.gauges["free_bytes"] = -1; },
              "free_bytes is -1"},
        Fault{"dirty_above_space",
              [](NodeSnapshot&, NodeSnapshot& after) { after.gauges["dirty_bytes"] = 1001; },
              "1001 dirty bytes in a cache of 1000"},
        Fault{"space_leak",
              [](NodeSnapshot&, NodeSnapshot& after) { after.gauges["clean_bytes"] = 100; },
              "add up to 900 bytes of 1000"},
        Fault{"unique_above_logical",
              [](NodeSnapshot&, NodeSnapshot& after) { after.gauges["unique_bytes"] = 901; },
              "901 unique bytes among 900"}),
    [](const auto& test) { return test.param.name; });

TEST(SnapshotTest, UnknownProcessorCountIsNotJudged) {
  NodeSnapshot after = Later();
  after.counters["busy_cpu_ns"] += 100 * kSecond;
  std::string reason;

  MeasureWindow(Base(), after, {.expected_seconds = 1, .processors = 0}, reason);

  EXPECT_EQ(reason, "");
}

TEST(SnapshotTest, ACounterANewerNodeAddsIsNoFault) {
  NodeSnapshot after = Later();
  after.counters["something_new"] = 12;
  std::string reason;

  MeasureWindow(Base(), after, kLimits, reason);

  EXPECT_EQ(reason, "");
}

}  // namespace
}  // namespace ebb::env
