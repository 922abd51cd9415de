// Goal: hand-made cells whose verdict is known.
#include "experiments/fidelity_bench/verdict.h"

#include "experiments/fidelity_bench/fidelity_figures.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::fidelity_bench {
namespace {

using ::testing::HasSubstr;

// All latencies `factor` times those of a plain window.
Outcome Window(double factor, double bytes_per_s = 1e6) {
  Outcome outcome;
  outcome.metrics.seconds = 1;
  for (env::OpWindow* op : {&outcome.metrics.read, &outcome.metrics.write}) {
    op->ops = 1'000;
    op->p50_ns = 100e3 * factor;
    op->p99_ns = 900e3 * factor;
  }
  outcome.bytes_per_s = bytes_per_s;
  return outcome;
}

// `live[i]` and `twin[i]`: latency factors of setting i; repeats differ by a percent.
WorkloadCells Make(const std::vector<double>& live, const std::vector<double>& twin) {
  WorkloadCells workload{.name = "load", .offered_bytes_per_s = 1e6};
  for (size_t i = 0; i < live.size(); ++i) {
    Cell cell{.setting = i};
    for (const double noise : {0.99, 1.0, 1.01}) cell.live.push_back(Window(live[i] * noise));
    cell.twin = Window(twin[i]);
    workload.cells.push_back(cell);
  }
  return workload;
}

double Value(const std::vector<WorkloadCells>& workloads, const std::string& series) {
  storage_bench::Samples samples;
  Judge(workloads, samples);
  const auto values = samples.Of(series);
  EXPECT_FALSE(values.empty()) << series;
  return values.empty() ? -1 : storage_bench::Median(values);
}

TEST(VerdictTest, APerfectTwinMeetsEveryBar) {
  const std::vector<double> factors = {1, 2, 0.5, 3, 0.7, 1.5};
  storage_bench::Samples samples;
  Judge({Make(factors, factors)}, samples);
  for (const storage_bench::FigureSpec& spec : FidelityFigures()) {
    EXPECT_TRUE(storage_bench::Evaluate(spec, samples).holds) << spec.name;
  }
}

TEST(VerdictTest, ErrorsAreThoseOfTheMedianRepeat) {
  const WorkloadCells workload = Make({1, 2, 4}, {1.2, 2.4, 4.8});
  EXPECT_NEAR(Value({workload}, "fidelity.p50_error_median"), 0.2, 1e-9);
  EXPECT_NEAR(Value({workload}, "fidelity.p99_error_median"), 0.2, 1e-9);
  EXPECT_NEAR(Value({workload}, "fidelity.throughput_error_median"), 0, 1e-9);
  // A twin that is wrong by the same factor everywhere still ranks settings well.
  EXPECT_NEAR(Value({workload}, "fidelity.spearman_min"), 1, 1e-9);
  EXPECT_NEAR(Value({workload}, "fidelity.sign_agreement"), 1, 1e-9);
}

TEST(VerdictTest, WrongSignsRanksAndChoicesAreCounted) {
  // Setting 1 is better and setting 2 worse than the default; the twin has it the other way.
  const WorkloadCells wrong = Make({1, 0.5, 2}, {1, 2, 0.5});
  const WorkloadCells right = Make({1, 0.5, 2}, {1, 0.6, 1.7});
  EXPECT_NEAR(Value({wrong, right}, "fidelity.sign_agreement"), 0.5, 1e-9);
  EXPECT_NEAR(Value({wrong, right}, "fidelity.spearman_min"), -1, 1e-9);
  // The index goes with the latencies' logarithms, weights 0.65 in all: 1 - 4^-0.65.
  EXPECT_NEAR(Value({wrong, right}, "fidelity.best_setting_regret"), 0.594, 0.01);
  EXPECT_NEAR(Value({right}, "fidelity.best_setting_regret"), 0, 1e-9);
}

TEST(VerdictTest, EffectsBelowWhatCanBeSeenAreNotJudged) {
  const WorkloadCells workload = Make({1, 1.001, 2}, {1, 0.5, 2});
  EXPECT_EQ(Value({workload}, "fidelity.effects_judged"), 1);
  EXPECT_EQ(Value({workload}, "fidelity.sign_agreement"), 1);
}

TEST(VerdictTest, AKindWithFewOperationsHasNoLatencies) {
  WorkloadCells workload = Make({1, 2}, {1, 2});
  for (Cell& cell : workload.cells) {
    for (Outcome& outcome : cell.live) outcome.metrics.write = {};
    cell.twin.metrics.write.p50_ns = 1;
  }
  EXPECT_NEAR(Value({workload}, "fidelity.p50_error_median"), 0, 1e-9);
}

TEST(VerdictTest, SaturatedCellsAnswerLessThanTheyAreAsked) {
  WorkloadCells workload = Make({1, 2, 3}, {1, 2, 3});
  for (Outcome& outcome : workload.cells[2].live) outcome.bytes_per_s = 0.9e6;
  EXPECT_FALSE(Saturated(workload, workload.cells[1]));
  EXPECT_TRUE(Saturated(workload, workload.cells[2]));
  EXPECT_EQ(Value({workload}, "fidelity.saturated_cells"), 1);
  EXPECT_THAT(Table({workload}), HasSubstr("1 / 3"));
}

}  // namespace
}  // namespace ebb::fidelity_bench
