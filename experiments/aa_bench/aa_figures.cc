#include "experiments/aa_bench/aa_figures.h"

#include <cmath>
#include <string>

namespace ebb::aa_bench {
namespace {

using engine::Change;
using engine::Verdict;
using storage_bench::Direction;

// The bar on keeps is stated for so many trials; a shorter study is scaled to it.
constexpr double kTrialsOfBar = 300;

void AddTrialSamples(const std::vector<Change>& trials, const std::string& group,
                     storage_bench::Samples& samples) {
  if (trials.empty()) return;
  double kept = 0;
  double reverted = 0;
  std::vector<double> windows;
  std::vector<double> detectable;
  for (const Change& trial : trials) {
    kept += trial.verdict == Verdict::kKeep ? 1 : 0;
    reverted += trial.verdict == Verdict::kRevert ? 1 : 0;
    windows.push_back(trial.windows_used);
    if (trial.smallest_detectable > 0) detectable.push_back(trial.smallest_detectable);
  }
  const auto count = static_cast<double>(trials.size());
  samples.Add(group + ".trials", count);
  samples.Add(group + ".kept", kept);
  samples.Add(group + ".reverted", reverted);
  samples.Add(group + ".inconclusive", count - kept - reverted);
  samples.Add(group + ".kept_of_300", kept / count * kTrialsOfBar);
  samples.Add(group + ".windows_median", storage_bench::Median(windows));
  if (!detectable.empty()) {
    samples.Add(group + ".smallest_detectable_median", storage_bench::Median(detectable));
  }
}

void AddIndexSamples(const std::vector<double>& indexes, storage_bench::Samples& samples) {
  if (indexes.size() < 2) return;
  const auto count = static_cast<double>(indexes.size());
  double mean = 0;
  double mean_log = 0;
  for (const double index : indexes) {
    mean += index / count;
    mean_log += std::log(index) / count;
  }
  double variance = 0;
  double covariance = 0;
  double last = 0;
  for (const double index : indexes) {
    const double deviation = std::log(index) - mean_log;
    variance += deviation * deviation / count;
    covariance += deviation * last / count;
    last = deviation;
  }
  samples.Add("index.mean", mean);
  samples.Add("index.geometric_mean", std::exp(mean_log));
  samples.Add("index.windows", count);
  samples.Add("index.noise_sd_log", std::sqrt(variance));
  if (variance > 0) samples.Add("index.autocorrelation", covariance / variance);
}

}  // namespace

const std::vector<storage_bench::FigureSpec>& AaFigures() {
  static const std::vector<storage_bench::FigureSpec> table = {
      {"aa_kept",
       "kept of 300 trials",
       Direction::kAtMost,
       6,
       "all.kept_of_300",
       {},
       "trials of nothing on a live node behind nbdkit under fio, the same setting again and a "
       "sham "
       "knob in turn, through the product's loop and guard; trials that ended void left out"},
      {"aa_index_mean",
       "index",
       Direction::kNear,
       100,
       "index.mean",
       {},
       "mean of the index over every window that has one, trials included: nothing was tuned, so "
       "100 is right",
       1},
  };
  return table;
}

void AddSamples(const AaResult& result, storage_bench::Samples& samples) {
  std::vector<Change> same;
  std::vector<Change> sham;
  for (const Change& trial : result.trials) (trial.knobs.empty() ? same : sham).push_back(trial);
  AddTrialSamples(result.trials, "all", samples);
  AddTrialSamples(same, "same_setting", samples);
  AddTrialSamples(sham, "sham_knob", samples);
  AddIndexSamples(result.indexes, samples);
  uint64_t void_trials = 0;
  for (const auto& [reason, count] : result.void_trials) void_trials += count;
  samples.Add("void.trials", static_cast<double>(void_trials));
  samples.Add("void.windows", static_cast<double>(result.void_windows));
  samples.Add("windows", static_cast<double>(result.windows));
}

}  // namespace ebb::aa_bench
