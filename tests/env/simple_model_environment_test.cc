#include "env/testing/simple_model_environment.h"

#include <cmath>
#include <memory>

#include "gtest/gtest.h"
#include "tests/env/env_contract.h"

namespace ebb::env {
namespace {

class ModelHarness final : public EnvHarness {
 public:
  explicit ModelHarness(const SimpleModelConfig& config) : model_(config, clock_) {}
  Environment& environment() override { return model_; }
  void AdvanceMs(uint64_t ms) override { clock_.AdvanceNs(ms * 1'000'000); }
  void Restart() override { model_.Restart(); }

 private:
  ManualClock clock_;
  SimpleModelEnvironment model_;
};

SimpleModelConfig OpenLoop() {
  SimpleModelConfig config = DefaultModelConfig();
  config.closed_loop = false;
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    SimpleModel, EnvContract,
    ::testing::Values(
        EnvContractCase{"closed_loop",
                        [] { return std::make_unique<ModelHarness>(DefaultModelConfig()); }},
        EnvContractCase{"open_loop", [] { return std::make_unique<ModelHarness>(OpenLoop()); }}),
    [](const auto& test) { return test.param.name; });

// Runs `windows` windows and returns log of read p50 of each.
std::vector<double> LogReadP50(SimpleModelEnvironment& model, int windows) {
  std::vector<double> series;
  for (int i = 0; i < windows; ++i)
    series.push_back(std::log(model.Observe()->metrics.read.p50_ns));
  return series;
}

double Mean(const std::vector<double>& series) {
  double sum = 0;
  for (double value : series) sum += value;
  return sum / static_cast<double>(series.size());
}

TEST(SimpleModelEnvironmentTest, SameSeedGivesTheSameWindows) {
  ManualClock clock_a;
  ManualClock clock_b;
  SimpleModelEnvironment a(DefaultModelConfig(), clock_a);
  SimpleModelEnvironment b(DefaultModelConfig(), clock_b);

  EXPECT_EQ(LogReadP50(a, 20), LogReadP50(b, 20));
}

// Goal: tests of the guard rely on the noise being what they asked for.
// Method: variance and lag-one autocorrelation of 20,000 windows.
TEST(SimpleModelEnvironmentTest, NoiseHasTheAskedSpreadAndMemory) {
  ManualClock clock;
  SimpleModelConfig config = DefaultModelConfig();
  config.noise_cv = 0.10;
  config.autocorrelation = 0.6;
  SimpleModelEnvironment model(config, clock);

  const std::vector<double> series = LogReadP50(model, 20'000);

  const double mean = Mean(series);
  double variance = 0;
  double covariance = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    variance += (series[i] - mean) * (series[i] - mean);
    if (i > 0) covariance += (series[i] - mean) * (series[i - 1] - mean);
  }
  EXPECT_NEAR(std::sqrt(variance / 20'000), 0.10, 0.005);
  EXPECT_NEAR(covariance / variance, 0.6, 0.03);
}

TEST(SimpleModelEnvironmentTest, BestSettingIsBetterAndPoisonWorse) {
  ManualClock clock;
  SimpleModelEnvironment model(DefaultModelConfig(), clock);
  Setting poisoned = model.space().Default();
  poisoned.values[*model.space().Find("poison")] = 10;
  Setting sham = model.space().Default();
  sham.values[*model.space().Find("sham")] = 0;

  EXPECT_GT(model.TrueLogGain(model.BestSetting(), 0.5), 0.2);
  EXPECT_LT(model.TrueLogGain(poisoned, 0.5), -1.0);
  EXPECT_EQ(model.TrueLogGain(sham, 0.5), 0);
}

TEST(SimpleModelEnvironmentTest, MeasuredGainIsTheTrueOne) {
  ManualClock clock;
  SimpleModelConfig config = DefaultModelConfig();
  config.noise_cv = 0;
  SimpleModelEnvironment model(config, clock);
  const double before = Mean(LogReadP50(model, 3));

  LeaseTerms terms;
  terms.lease_ms = 60'000;
  ASSERT_TRUE(model.Apply(model.BestSetting(), 1, terms).ok());
  const double after = Mean(LogReadP50(model, 3));

  EXPECT_NEAR(before - after, model.TrueLogGain(model.BestSetting(), 1.0), 1e-9);
}

TEST(SimpleModelEnvironmentTest, EffectSettlesOverWindows) {
  ManualClock clock;
  SimpleModelConfig config = DefaultModelConfig();
  config.noise_cv = 0;
  config.settle_windows = 3;
  SimpleModelEnvironment model(config, clock);
  const double before = Mean(LogReadP50(model, 1));
  LeaseTerms terms;
  terms.lease_ms = 60'000;
  ASSERT_TRUE(model.Apply(model.BestSetting(), 1, terms).ok());

  const std::vector<double> after = LogReadP50(model, 20);

  const double gain = model.TrueLogGain(model.BestSetting(), 1.0);
  EXPECT_LT(before - after.front(), gain / 2);
  EXPECT_NEAR(before - after.back(), gain, 0.01 * gain);
}

TEST(SimpleModelEnvironmentTest, ATripConditionRevertsWithItsReading) {
  ManualClock clock;
  SimpleModelEnvironment model(DefaultModelConfig(), clock);
  const double p99_us = model.Observe()->metrics.read.p99_ns / 1e3;
  Setting poisoned = model.space().Default();
  poisoned.values[*model.space().Find("poison")] = 10;
  LeaseTerms terms;
  terms.lease_ms = 60'000;
  terms.trips.read_p99_us_max = 2 * p99_us;
  ASSERT_TRUE(model.Apply(poisoned, 1, terms).ok());

  const Observation seen = *model.Observe();

  EXPECT_EQ(seen.setting, model.space().Default());
  EXPECT_TRUE(seen.setting_changed);
  EXPECT_EQ(model.Events(0)->back().kind, NodeEvent::Kind::kTripped);
}

TEST(SimpleModelEnvironmentTest, LoadStepsShowInTheDescriptor) {
  ManualClock clock;
  SimpleModelConfig config = DefaultModelConfig();
  config.steps = {{.window = 2, .load_factor = 2, .read_share = 0.9, .mean_bytes = 65536}};
  SimpleModelEnvironment model(config, clock);

  model.Observe().IgnoreError();
  const WorkloadDescriptor before = model.Observe()->descriptor;
  const WorkloadDescriptor after = model.Observe()->descriptor;

  EXPECT_EQ(after.mean_in_flight, 2 * before.mean_in_flight);
  EXPECT_EQ(after.read_share, 0.9);
  EXPECT_EQ(after.mean_read_bytes, 65536);
}

TEST(SimpleModelEnvironmentTest, FaultsComeOnCueAndOnce) {
  ManualClock clock;
  SimpleModelEnvironment model(DefaultModelConfig(), clock);
  model.FailNextObserve(absl::UnavailableError("gone"));
  model.FailNextApply(absl::UnavailableError("gone"));
  model.VoidNextWindow("stale");
  LeaseTerms terms;
  terms.lease_ms = 1'000;

  EXPECT_FALSE(model.Observe().ok());
  EXPECT_EQ(model.Observe()->void_reason, "stale");
  EXPECT_TRUE(model.Observe()->valid);
  EXPECT_FALSE(model.Apply(model.BestSetting(), 1, terms).ok());
  EXPECT_TRUE(model.Apply(model.BestSetting(), 1, terms).ok());
  EXPECT_EQ(model.calls().size(), 2u);
}

}  // namespace
}  // namespace ebb::env
