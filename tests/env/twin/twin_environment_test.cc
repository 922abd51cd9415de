#include "env/twin/twin_environment.h"

#include <cmath>

#include "tests/env/env_contract.h"
#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

TwinConfig Config() {
  TwinConfig config;
  config.simulator.node = SmallNode();
  config.warm_up_passes = 1;
  config.settle_seconds = 1;
  return config;
}

TwinConfig ClosedLoop() {
  TwinConfig config = Config();
  config.simulator.closed_loop_clients = 8;
  config.simulator.node.client_overhead_ns = 2'000;
  return config;
}

std::shared_ptr<const RequestStream> Load(uint32_t divisor = 1) {
  env::SynthPhase spec = SmallLoad();
  spec.ops_per_s = 4'000 * divisor;  // a descriptor of few requests is mostly chance
  spec.zipf_skew = 0.5;
  return std::make_shared<RequestStream>(MakeLoad(spec, 512 * kMiB).Sample(divisor, 1));
}

class TwinHarness final : public env::EnvHarness {
 public:
  TwinHarness(const TwinConfig& config, uint32_t divisor) {
    auto made = TwinEnvironment::Make(config, Load(divisor), clock_);
    EXPECT_TRUE(made.ok()) << made.status();
    twin_ = *std::move(made);
  }
  env::Environment& environment() override { return *twin_; }
  void AdvanceMs(uint64_t ms) override { clock_.AdvanceNs(ms * kNsPerMs); }
  void Restart() override { twin_->Restart(); }

 private:
  ManualClock clock_;
  std::unique_ptr<TwinEnvironment> twin_;
};

}  // namespace
}  // namespace ebb::twin

namespace ebb::env {

INSTANTIATE_TEST_SUITE_P(
    Twin, EnvContract,
    ::testing::Values(
        EnvContractCase{"open_loop",
                        [] { return std::make_unique<twin::TwinHarness>(twin::Config(), 1); }},
        EnvContractCase{"closed_loop",
                        [] { return std::make_unique<twin::TwinHarness>(twin::ClosedLoop(), 1); }},
        EnvContractCase{"sampled",
                        [] { return std::make_unique<twin::TwinHarness>(twin::Config(), 4); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace ebb::env

namespace ebb::twin {
namespace {

std::unique_ptr<TwinEnvironment> Make(const TwinConfig& config, ManualClock& clock) {
  auto made = TwinEnvironment::Make(config, Load(), clock);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

TEST(TwinEnvironmentTest, SameSeedAndCallsSameWindows) {
  TwinConfig config = Config();
  config.noise = {.cv = 0.05, .autocorrelation = 0.5, .tail_chance = 0.1};
  ManualClock clock_a;
  ManualClock clock_b;
  const auto a = Make(config, clock_a);
  const auto b = Make(config, clock_b);

  for (int i = 0; i < 5; ++i) {
    const auto seen_a = a->Observe();
    const auto seen_b = b->Observe();
    EXPECT_EQ(seen_a->metrics.read.latency.Sparse(), seen_b->metrics.read.latency.Sparse());
    EXPECT_EQ(seen_a->metrics.dirty_bytes, seen_b->metrics.dirty_bytes);
    EXPECT_EQ(seen_a->descriptor.working_set_bytes, seen_b->descriptor.working_set_bytes);
  }
}

TEST(TwinEnvironmentTest, ObservesTheLoad) {
  ManualClock clock;
  const auto twin = Make(Config(), clock);

  env::Observation seen;
  for (int i = 0; i < 4; ++i) seen = *twin->Observe();

  EXPECT_NEAR(seen.descriptor.offered_ops_per_s, 4'000, 200);
  EXPECT_NEAR(seen.descriptor.read_share, 0.7, 0.05);
  EXPECT_EQ(seen.descriptor.mean_in_flight, 0);
  EXPECT_GT(seen.descriptor.working_set_bytes, 0);
  EXPECT_EQ(twin->info().device_class, "sata-ssd");
  EXPECT_DOUBLE_EQ(seen.metrics.seconds, 1);
}

TEST(TwinEnvironmentTest, AKnobReachesTheSimulatedNode) {
  ManualClock clock;
  TwinConfig config = Config();
  config.simulator.setting.Set(storage::KnobId::kReadCacheBytes, 0);
  config.simulator.setting.Set(storage::KnobId::kNvmeReadShare, 0);
  const auto twin = Make(config, clock);
  const double before = twin->Observe()->metrics.read_hit_share;
  env::Setting setting = twin->ReadSettings()->current;
  setting.values[static_cast<size_t>(storage::KnobId::kReadCacheBytes)] =
      static_cast<int64_t>(256 * kMiB);

  ASSERT_TRUE(twin->SetIncumbent(setting, "operator", "more memory").ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(twin->Observe().ok());

  EXPECT_GT(twin->Observe()->metrics.read_hit_share, before + 0.2);
}

TEST(TwinEnvironmentTest, ATripConditionRevertsWithinTheWindow) {
  ManualClock clock;
  const auto twin = Make(Config(), clock);
  ASSERT_TRUE(twin->Observe().ok());
  const env::SettingState before = *twin->ReadSettings();
  env::Setting candidate = before.current;
  candidate.values[static_cast<size_t>(storage::KnobId::kReadCacheBytes)] = 0;
  env::LeaseTerms terms;
  terms.lease_ms = 600'000;
  terms.trips.read_p99_us_max = 50;  // every miss is slower
  ASSERT_TRUE(twin->Apply(candidate, before.version, terms).ok());

  const env::Observation seen = *twin->Observe();

  EXPECT_EQ(twin->ReadSettings()->current, before.incumbent);
  EXPECT_TRUE(seen.setting_changed);
  const auto events = *twin->Events(0);
  EXPECT_EQ(events.back().kind, env::NodeEvent::Kind::kTripped);
  EXPECT_THAT(events.back().text, ::testing::HasSubstr("read_p99_us_max"));
}

TEST(TwinEnvironmentTest, RefusesAnImpossibleWindow) {
  ManualClock clock;
  TwinConfig config = Config();
  config.window_seconds = 0;

  EXPECT_FALSE(TwinEnvironment::Make(config, Load(), clock).ok());
}

TEST(TwinKnobSpaceTest, IsTheNodesTable) {
  const env::KnobSpace space = TwinKnobSpace(10 * kGiB);

  EXPECT_EQ(space.size(), storage::kKnobCount);
  EXPECT_EQ(ToStorageSetting(space.Default()), storage::Setting());
  EXPECT_EQ(ToEnvSetting(storage::Setting()), space.Default());
  EXPECT_EQ(space[*space.Find("read_cache_bytes")].max, static_cast<int64_t>(kGiB));
  EXPECT_EQ(space[*space.Find("compression")].choices[1], "lz4");
}

env::WindowMetrics Measured() {
  env::WindowMetrics metrics;
  metrics.seconds = 1;
  for (uint64_t i = 0; i < 1'000; ++i) metrics.read.latency.Record(100'000 + i * 100);
  metrics.read.ops = 1'000;
  metrics.read.bytes = 4'096'000;
  metrics.read.p50_ns = metrics.read.latency.QuantileNs(0.5);
  metrics.read.p99_ns = metrics.read.latency.QuantileNs(0.99);
  return metrics;
}

// Log p50 of `count` disturbed windows.
std::vector<double> Disturbed(const NoiseSpec& spec, int count) {
  MeasurementNoise noise(spec, 5);
  std::vector<double> series;
  for (int i = 0; i < count; ++i) {
    env::WindowMetrics metrics = Measured();
    noise.Disturb(/*closed_loop=*/false, metrics);
    EXPECT_EQ(metrics.read.ops, 1'000u);
    EXPECT_LE(metrics.read.p50_ns, metrics.read.p99_ns);
    series.push_back(std::log(metrics.read.p50_ns));
  }
  return series;
}

double Correlation(const std::vector<double>& series, double& deviation) {
  double mean = 0;
  for (const double value : series) mean += value / static_cast<double>(series.size());
  double variance = 0;
  double lagged = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    variance += (series[i] - mean) * (series[i] - mean);
    if (i > 0) lagged += (series[i] - mean) * (series[i - 1] - mean);
  }
  deviation = std::sqrt(variance / static_cast<double>(series.size()));
  return lagged / variance;
}

TEST(MeasurementNoiseTest, HasItsSpreadAndAutocorrelation) {
  double deviation = 0;
  const double correlation =
      Correlation(Disturbed({.cv = 0.1, .autocorrelation = 0.6}, 4'000), deviation);

  EXPECT_NEAR(deviation, 0.1, 0.015);
  EXPECT_NEAR(correlation, 0.6, 0.06);
}

TEST(MeasurementNoiseTest, ATailStretchesP99AndLeavesTheMedian) {
  MeasurementNoise noise({.tail_chance = 1, .tail_scale = 5}, 3);
  env::WindowMetrics metrics = Measured();
  const env::WindowMetrics before = metrics;

  noise.Disturb(false, metrics);

  EXPECT_NEAR(metrics.read.p50_ns, before.read.p50_ns, 0.04 * before.read.p50_ns);
  EXPECT_GT(metrics.read.p99_ns, 1.2 * before.read.p99_ns);
}

TEST(MeasurementNoiseTest, ThroughputIsDisturbedWhereClientsWait) {
  MeasurementNoise noise({.cv = 0.2}, 3);
  env::WindowMetrics metrics = Measured();

  noise.Disturb(/*closed_loop=*/true, metrics);

  EXPECT_NE(metrics.read.ops, 1'000u);
  EXPECT_EQ(metrics.read.ops, metrics.read.latency.count());
}

TEST(MeasurementNoiseTest, NoneByDefault) {
  MeasurementNoise noise({}, 3);
  env::WindowMetrics metrics = Measured();

  noise.Disturb(true, metrics);

  EXPECT_EQ(metrics.read.latency.Sparse(), Measured().read.latency.Sparse());
}

}  // namespace
}  // namespace ebb::twin
