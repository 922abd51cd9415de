// The descriptor tells of the load and nothing of the setting, on the twin's stream.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

// gtest first: rapidcheck's adapter expects it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "env/twin/sweep.h"
#include "env/twin/twin_environment.h"
#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

using env::WorkloadDescriptor;

constexpr uint64_t kHostMemoryBytes = 128 * kMiB;

struct Asked {
  env::Setting setting;
  std::string device = "sata-ssd";
  int clients = 0;
  double window_seconds = 1;  // a whole period of the load
  uint64_t requests = 0;      // to be described, at least
};

struct Described {
  WorkloadDescriptor last;
  double reads = 0;  // of that window
  double writes = 0;
  uint64_t late_ns = 0;       // at most
  double in_store_share = 1;  // of the clients' time, at least
};

Described Describe(const RequestStream& load, const Asked& asked) {
  TwinConfig config;
  config.window_seconds = asked.window_seconds;
  config.warm_up_passes = 1;
  config.simulator.node = SmallNode();
  config.simulator.node.capacity_device = asked.device;
  config.simulator.node.cores = 8;
  config.simulator.node.workers = 64;
  config.simulator.node.host_memory_bytes = kHostMemoryBytes;
  config.simulator.setting = ToStorageSetting(asked.setting);
  config.simulator.closed_loop_clients = asked.clients;
  ManualClock clock;
  auto twin = TwinEnvironment::Make(config, std::make_shared<const RequestStream>(load), clock);
  EXPECT_TRUE(twin.ok()) << twin.status();
  Described described;
  for (uint64_t seen = 0; seen < asked.requests;) {
    const auto observation = (*twin)->Observe();
    EXPECT_TRUE(observation.ok());
    described.last = observation->descriptor;
    described.reads = static_cast<double>(observation->metrics.read.ops);
    described.writes = static_cast<double>(observation->metrics.write.ops);
    described.late_ns = std::max(described.late_ns, (*twin)->last_window().late_ns);
    described.in_store_share = std::min(
        described.in_store_share, observation->metrics.mean_in_flight / std::max(asked.clients, 1));
    seen += observation->metrics.read.ops + observation->metrics.write.ops;
  }
  return described;
}

template <size_t kCount>
double LargestDifference(const std::array<double, kCount>& a, const std::array<double, kCount>& b) {
  double largest = 0;
  for (size_t i = 0; i < kCount; ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

bool IsNear(double a, double b, double share, double floor) {
  return std::abs(a - b) <= std::max(floor, share * std::max(a, b));
}

// Five deviations of the difference of two shares among so many requests, of which no two windows
// have the same.
double NoiseOf(double count_a, double count_b) {
  return 5 * std::sqrt(0.25 / std::max(count_a, 1.0) + 0.25 / std::max(count_b, 1.0));
}

void ExpectTheSameLoad(const Described& described_a, const Described& described_b,
                       bool closed_loop) {
  const WorkloadDescriptor& a = described_a.last;
  const WorkloadDescriptor& b = described_b.last;
  const double of_reads = NoiseOf(described_a.reads, described_b.reads);
  const double of_writes = NoiseOf(described_a.writes, described_b.writes);
  const double of_all =
      NoiseOf(described_a.reads + described_a.writes, described_b.reads + described_b.writes);
  RC_LOG() << "in flight " << a.mean_in_flight << " and " << b.mean_in_flight << ", working set "
           << a.working_set_bytes << " and " << b.working_set_bytes << "\n";
  RC_ASSERT((a.mean_in_flight > 0) == closed_loop);
  RC_ASSERT((b.mean_in_flight > 0) == closed_loop);
  // Where a disk keeps a request for seconds, its clients are counted up to a third too high.
  RC_ASSERT(IsNear(a.mean_in_flight, b.mean_in_flight, 0.4, 0));
  RC_ASSERT(IsNear(a.offered_ops_per_s, b.offered_ops_per_s, 0.03, 20));
  RC_ASSERT(IsNear(a.burstiness, b.burstiness, 0.2, 0.15));
  RC_ASSERT(IsNear(a.read_share, b.read_share, 0, of_all));
  RC_ASSERT(IsNear(a.mean_read_bytes, b.mean_read_bytes, 2 * of_reads, 0));
  RC_ASSERT(IsNear(a.mean_write_bytes, b.mean_write_bytes, 2 * of_writes, 0));
  RC_ASSERT(IsNear(a.sequential_share, b.sequential_share, 0, of_all + 0.02));
  RC_ASSERT(IsNear(a.working_set_bytes, b.working_set_bytes, 0.15 + 2 * of_all, 0));
  RC_ASSERT(LargestDifference(a.read_sizes, b.read_sizes) <= of_reads);
  RC_ASSERT(LargestDifference(a.write_sizes, b.write_sizes) <= of_writes);
  RC_ASSERT(LargestDifference(a.miss_ratios, b.miss_ratios) <= 0.06);
  RC_ASSERT(LargestDifference(a.overwrite_shares, b.overwrite_shares) <= 0.06);
  RC_ASSERT(IsNear(a.duplicate_share, b.duplicate_share, 0, 0.1));
  RC_ASSERT(IsNear(a.compressible_share, b.compressible_share, 0, 0.05));
}

env::SynthPhase AnyLoad() {
  env::SynthPhase phase = SmallLoad();
  phase.duration_ns = 40 * kNsPerS;
  phase.ops_per_s = *rc::gen::element(800.0, 1'500.0, 3'000.0);
  phase.duty = *rc::gen::element(1.0, 0.4);
  phase.working_set_bytes = *rc::gen::element(32 * kMiB, 128 * kMiB, 400 * kMiB);
  if (*rc::gen::arbitrary<bool>()) phase.sizes = {{4096, 3}, {16'384, 1}};
  phase.read_share = 0.1 * *rc::gen::inRange(2, 9);
  phase.random_share = 0.1 * *rc::gen::inRange(4, 11);
  phase.zipf_skew = 0.1 * *rc::gen::inRange(0, 12);
  phase.duplicate_share = 0.1 * *rc::gen::inRange(0, 7);
  phase.compressible_share = 0.1 * *rc::gen::inRange(0, 11);
  return phase;
}

std::pair<env::Setting, env::Setting> AnyTwoSettings() {
  const env::KnobSpace space = TwinKnobSpace(kHostMemoryBytes);
  const auto settings = SpreadSettings(space, space.Default(), 2, /*all_knobs=*/true,
                                       *rc::gen::inRange<uint64_t>(1, 10'000));
  return {settings[0], settings[1]};
}

RC_GTEST_PROP(DescriptorProperty, DoesNotFollowTheKnobsWhereClientsKeepTheirPace, ()) {
  const env::SynthPhase phase = AnyLoad();
  const RequestStream load = MakeLoad(phase, 512 * kMiB);
  const auto [one, other] = AnyTwoSettings();
  // As many windows for each.
  const auto requests = static_cast<uint64_t>(19.5 * phase.ops_per_s);
  const Described a = Describe(load, {.setting = one, .requests = requests});
  const Described b = Describe(load, {.setting = other, .requests = requests});
  // Clients whom a setting keeps waiting for a worker do not keep their own pace any more.
  RC_PRE(std::max(a.late_ns, b.late_ns) < 5 * kNsPerMs);
  ExpectTheSameLoad(a, b, /*closed_loop=*/false);
}

// Goal: a store that gets faster is no other load, as long as clients wait for it at all: those who
// spend most of their time elsewhere set the pace themselves.
RC_GTEST_PROP(DescriptorProperty, DoesNotFollowTheKnobsWhereClientsWait, ()) {
  env::SynthPhase phase = AnyLoad();
  // Small, so that first accesses no longer count, and far larger than DRAM.
  phase.working_set_bytes = 64 * kMiB;
  phase.zipf_skew = std::min(phase.zipf_skew, 0.6);
  const RequestStream load = MakeLoad(phase, 512 * kMiB);
  const auto [one, other] = AnyTwoSettings();
  Asked asked{.setting = one,
              .device = "disk-7200",
              .clients = *rc::gen::element(1, 2, 8),
              .window_seconds = 5,
              .requests = 150'000};
  const Described a = Describe(load, asked);
  asked.setting = other;
  const Described b = Describe(load, asked);
  RC_PRE(std::min(a.in_store_share, b.in_store_share) > 0.4);
  RC_LOG() << "in store " << a.in_store_share << " and " << b.in_store_share << "\n";
  ExpectTheSameLoad(a, b, /*closed_loop=*/true);
}

TEST(DescriptorOfASampleTest, IsThatOfTheLoad) {
  env::SynthPhase phase = SmallLoad();
  phase.ops_per_s = 8'000;
  phase.duplicate_share = 0.4;
  const RequestStream load = MakeLoad(phase, 512 * kMiB);
  const env::Setting setting = TwinKnobSpace(kHostMemoryBytes).Default();

  const Asked asked{.setting = setting, .requests = 80'000};
  const WorkloadDescriptor whole = Describe(load, asked).last;
  const WorkloadDescriptor part = Describe(load.Sample(4, 1), asked).last;

  EXPECT_LT(LargestDifference(whole.miss_ratios, part.miss_ratios), 0.06);
  EXPECT_LT(LargestDifference(whole.overwrite_shares, part.overwrite_shares), 0.06);
  // Of a quarter of the contents both are estimates.
  EXPECT_NEAR(part.duplicate_share, 0.4, 0.12);
  EXPECT_NEAR(whole.duplicate_share, 0.4, 0.12);
  EXPECT_NEAR(part.compressible_share, whole.compressible_share, 0.03);
}

}  // namespace
}  // namespace ebb::twin
