#include "experiments/aa_bench/aa_study.h"

#include <memory>

#include <gtest/gtest.h>

#include "env/testing/simple_model_environment.h"
#include "experiments/aa_bench/aa_figures.h"

namespace ebb::aa_bench {
namespace {

using engine::Verdict;

class AaStudyTest : public ::testing::Test {
 protected:
  absl::StatusOr<AaResult> Run(const AaOptions& options) {
    return RunAaStudy(
        options, clock_, *history_,
        [this](const std::string&) -> absl::StatusOr<std::unique_ptr<env::Environment>> {
          if (unreachable_) return absl::UnavailableError("nobody listens");
          return std::make_unique<env::SimpleModelEnvironment>(env::DefaultModelConfig(), clock_);
        },
        stop_,
        [this](uint64_t, const engine::NodeStatus& status) {
          stop_ = stop_ || status.windows >= windows_max_;
        });
  }
  static storage_bench::Figure FigureOf(const std::string& name, const AaResult& result) {
    storage_bench::Samples samples;
    AddSamples(result, samples);
    for (const storage_bench::FigureSpec& spec : AaFigures()) {
      if (spec.name == name) return Evaluate(spec, samples);
    }
    return {};
  }

  ManualClock clock_;
  std::unique_ptr<engine::History> history_ = engine::MakeMemoryHistory();
  std::atomic<bool> stop_{false};
  uint64_t windows_max_ = 20'000;
  bool unreachable_ = false;
};

TEST_F(AaStudyTest, HalfOfTheTrialsChangeNothingAndHalfTheShamKnob) {
  AaOptions options;
  options.trials = 40;
  options.sham = {"sham", 0, 500};

  const auto result = Run(options);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trials.size(), 40U);
  size_t same = 0;
  for (const engine::Change& trial : result->trials) {
    EXPECT_GT(trial.windows_used, 0U);
    if (trial.knobs.empty()) {
      ++same;
    } else {
      EXPECT_EQ(trial.knobs.front().knob, "sham");
    }
  }
  EXPECT_NEAR(static_cast<double>(same), 20, 2);
  EXPECT_TRUE(FigureOf("aa_kept", *result).holds);
  EXPECT_TRUE(FigureOf("aa_index_mean", *result).holds) << FigureOf("aa_index_mean", *result).value;
}

// Goal: the figure shows a keep. Method: a "sham" knob that helps a great deal.
TEST_F(AaStudyTest, AKeptTrialIsCountedAndScaledToTheBar) {
  AaOptions options;
  options.trials = 6;
  options.sham = {"alpha", 30, 80};

  const auto result = Run(options);

  ASSERT_TRUE(result.ok()) << result.status();
  double kept = 0;
  for (const engine::Change& trial : result->trials) {
    kept += trial.verdict == Verdict::kKeep ? 1 : 0;
  }
  EXPECT_GE(kept, 1);
  EXPECT_FALSE(FigureOf("aa_kept", *result).holds);
  EXPECT_DOUBLE_EQ(FigureOf("aa_kept", *result).value,
                   kept * 300 / static_cast<double>(result->trials.size()));
  EXPECT_FALSE(FigureOf("aa_index_mean", *result).holds);
}

TEST_F(AaStudyTest, StoppedEarlyItTellsWhatItHas) {
  AaOptions options;
  options.sham = {"sham", 0, 500};
  windows_max_ = 150;

  const auto result = Run(options);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->trials.size(), 0U);
  EXPECT_LT(result->trials.size(), 300U);
  EXPECT_EQ(result->windows, 150U);
}

TEST_F(AaStudyTest, WithoutANodeThereIsNoResult) {
  unreachable_ = true;

  EXPECT_EQ(Run({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AaStudyTest, NothingMeasuredHoldsNoBar) {
  EXPECT_FALSE(FigureOf("aa_kept", {}).holds);
  EXPECT_FALSE(FigureOf("aa_index_mean", {}).holds);
}

}  // namespace
}  // namespace ebb::aa_bench
