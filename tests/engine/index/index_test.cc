#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/index/performance_index.h"
#include "env/testing/simple_model_environment.h"

namespace ebb::engine {
namespace {

constexpr auto kGoal = agents::GoalKind::kBalanced;

env::Observation MustObserve(env::Environment& environment) {
  absl::StatusOr<env::Observation> observation = environment.Observe();
  EXPECT_TRUE(observation.ok()) << observation.status();
  return *std::move(observation);
}

void LearnWindows(env::Environment& environment, BaselineModel& baseline, int windows) {
  for (int i = 0; i < windows; ++i) {
    const env::Observation observation = MustObserve(environment);
    baseline.Learn(FeaturesOf(observation.descriptor), MeasureComponents(observation.metrics));
  }
}

TEST(IndexTest, StaysUnknownUntilTheDefaultWasSeen) {
  ManualClock clock;
  env::SimpleModelEnvironment environment(env::DefaultModelConfig(), clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, 5);

  const IndexReading reading = EvaluateIndex(baseline, kGoal, MustObserve(environment));

  EXPECT_FALSE(reading.known);
  EXPECT_NE(reading.unknown_reason.find("5 windows"), std::string::npos) << reading.unknown_reason;
}

TEST(IndexTest, IsAHundredOnTheDefault) {
  ManualClock clock;
  env::SimpleModelEnvironment environment(env::DefaultModelConfig(), clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, 200);

  double log_sum = 0;
  for (int i = 0; i < 200; ++i) {
    const IndexReading reading = EvaluateIndex(baseline, kGoal, MustObserve(environment));
    ASSERT_TRUE(reading.known) << reading.unknown_reason;
    log_sum += reading.log_ratio;
  }

  EXPECT_NEAR(log_sum / 200, 0, 0.02);
}

TEST(IndexTest, ShowsTheTrueGainOfABetterSetting) {
  ManualClock clock;
  env::SimpleModelEnvironment environment(env::DefaultModelConfig(), clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, 100);
  const double true_gain = environment.TrueLogGain(environment.BestSetting(), 0.5);
  ASSERT_GT(true_gain, 0.1);
  ASSERT_TRUE(environment.SetIncumbent(environment.BestSetting(), "test", "better").ok());
  MustObserve(environment);

  double log_sum = 0;
  for (int i = 0; i < 100; ++i) {
    const IndexReading reading = EvaluateIndex(baseline, kGoal, MustObserve(environment));
    ASSERT_TRUE(reading.known) << reading.unknown_reason;
    log_sum += reading.log_ratio;
  }

  EXPECT_NEAR(log_sum / 100, true_gain, 0.25 * true_gain);
}

// Goal: the load may change, the index must not.
// Method: the default runs throughout; after one round of every load the index is judged on a
// second round, in another order.
TEST(IndexTest, LoadChangesDoNotMoveIt) {
  ManualClock clock;
  env::SimpleModelConfig config = env::DefaultModelConfig();
  config.seed = 11;
  const std::vector<env::LoadStep> loads = {{0, 1, 0.5, 4096},   {0, 4, 0.5, 4096},
                                            {0, 0.4, 0.5, 4096}, {0, 1, 0.9, 4096},
                                            {0, 1, 0.1, 4096},   {0, 1, 0.5, 65536}};
  constexpr uint64_t kWindowsEach = 40;
  for (size_t i = 0; i < 2 * loads.size(); ++i) {
    env::LoadStep step = loads[i < loads.size() ? i : (5 * i + 2) % loads.size()];
    step.window = i * kWindowsEach;
    config.steps.push_back(step);
  }
  env::SimpleModelEnvironment environment(config, clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, static_cast<int>(loads.size() * kWindowsEach));

  int within = 0;
  int known = 0;
  double log_sum = 0;
  const int judged = static_cast<int>(loads.size() * kWindowsEach);
  for (int i = 0; i < judged; ++i) {
    const IndexReading reading = EvaluateIndex(baseline, kGoal, MustObserve(environment));
    if (!reading.known) continue;
    ++known;
    log_sum += reading.log_ratio;
    if (std::abs(reading.value() - 100) <= 12) ++within;
  }

  // Single windows carry 5 % noise themselves, so 12 % is a little over two deviations.
  EXPECT_GE(known, judged * 95 / 100);
  EXPECT_GE(within, known * 95 / 100);
  EXPECT_NEAR(log_sum / known, 0, 0.015);
}

TEST(IndexTest, RefusesALoadUnlikeAnythingSeen) {
  ManualClock clock;
  env::SimpleModelConfig config = env::DefaultModelConfig();
  config.steps = {{60, 1, 0.95, 1 << 20}};
  env::SimpleModelEnvironment environment(config, clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, 60);

  const IndexReading reading = EvaluateIndex(baseline, kGoal, MustObserve(environment));

  EXPECT_FALSE(reading.known);
}

TEST(BaselineModelTest, OneWildWindowDoesNotMoveIt) {
  ManualClock clock;
  env::SimpleModelEnvironment environment(env::DefaultModelConfig(), clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, 30);
  const env::Observation observation = MustObserve(environment);
  const LoadFeatures features = FeaturesOf(observation.descriptor);
  const double before = baseline.Predict(features).log_mean[0];
  ComponentLogs wild = MeasureComponents(observation.metrics);
  for (double& value : wild.value) value += 5;

  baseline.Learn(features, wild);

  EXPECT_NEAR(baseline.Predict(features).log_mean[0], before, 0.03);
}

TEST(BaselineModelTest, SavesAndLoads) {
  ManualClock clock;
  env::SimpleModelEnvironment environment(env::DefaultModelConfig(), clock);
  BaselineModel baseline({});
  LearnWindows(environment, baseline, 30);
  const LoadFeatures features = FeaturesOf(MustObserve(environment).descriptor);

  BaselineModel loaded({});
  ASSERT_TRUE(loaded.Load(baseline.Save()).ok());

  EXPECT_EQ(loaded.windows(), baseline.windows());
  EXPECT_EQ(loaded.Predict(features).log_mean, baseline.Predict(features).log_mean);
  EXPECT_FALSE(loaded.Load("rubbish").ok());
  EXPECT_FALSE(loaded.Load(baseline.Save().substr(0, 50)).ok());
  EXPECT_EQ(loaded.windows(), baseline.windows());
}

TEST(LoadFeaturesTest, ClosedLoopLoadIgnoresTheRateThatTuningMoves) {
  env::WorkloadDescriptor slow{.offered_ops_per_s = 1000, .read_share = 0.5, .mean_in_flight = 16};
  env::WorkloadDescriptor fast = slow;
  fast.offered_ops_per_s = 5000;
  fast.working_set_bytes = 1e9;

  EXPECT_EQ(SquaredDistance(FeaturesOf(slow), FeaturesOf(fast)), 0);
}

TEST(LoadFeaturesTest, OpenLoopLoadIsItsRateWhateverTheLatency) {
  env::WorkloadDescriptor one{.offered_ops_per_s = 100, .read_share = 0.5, .mean_in_flight = 0.1};
  env::WorkloadDescriptor other = one;
  other.mean_in_flight = 0.4;
  env::WorkloadDescriptor more = one;
  more.offered_ops_per_s = 200;

  EXPECT_EQ(SquaredDistance(FeaturesOf(one), FeaturesOf(other)), 0);
  EXPECT_GT(SquaredDistance(FeaturesOf(one), FeaturesOf(more)), 1);
}

}  // namespace
}  // namespace ebb::engine
