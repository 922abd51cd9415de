#include "experiments/fidelity_bench/verdict.h"

#include <algorithm>
#include <cmath>

#include "agents/agent.h"
#include "engine/goal/goal.h"
#include "experiments/fidelity_bench/statistics.h"
#include "fmt/format.h"

namespace ebb::fidelity_bench {
namespace {

constexpr auto kGoal = agents::GoalKind::kBalanced;
constexpr double kSaturatedShare = 0.97;
constexpr uint64_t kOpsMin = 100;  // fewer have no 99th percentile

// Indexes of a workload's settings.
struct Indexes {
  std::vector<std::vector<double>> live;  // repeats, against the mean of the default's
  std::vector<double> live_mean;
  std::vector<double> twin;
  double smallest_detectable = 0;
};

double LogIndex(const Outcome& outcome, const Outcome& base) {
  return engine::LogIndexAgainst(kGoal, outcome.metrics, base.metrics);
}

Indexes MakeIndexes(const WorkloadCells& workload) {
  Indexes indexes;
  const Cell& base = workload.cells.front();
  for (const Cell& cell : workload.cells) {
    std::vector<double>& repeats = indexes.live.emplace_back();
    for (const Outcome& outcome : cell.live) {
      // A log index is a weighted sum of logarithms: the mean over the default's repeats is the
      // index against their geometric mean.
      double sum = 0;
      for (const Outcome& other : base.live) sum += LogIndex(outcome, other);
      repeats.push_back(sum / static_cast<double>(base.live.size()));
    }
    indexes.live_mean.push_back(Mean(repeats));
    indexes.twin.push_back(LogIndex(cell.twin, base.twin));
  }
  const size_t repeats = workload.cells.size() > 1 ? workload.cells[1].live.size() : 0;
  indexes.smallest_detectable =
      SmallestDetectableEffect(PooledNoise(indexes.live), base.live.size(), repeats);
  return indexes;
}

using Quantity = double (*)(const Outcome& outcome);

// By repeat.
std::vector<double> LiveValues(const Cell& cell, Quantity quantity) {
  std::vector<double> values;
  for (const Outcome& outcome : cell.live) values.push_back(quantity(outcome));
  return values;
}

// |predicted / measured - 1| of one quantity of a cell; negative when the cell has none.
double Error(const Cell& cell, Quantity quantity) {
  const double measured = Quantile(LiveValues(cell, quantity), 0.5);
  const double predicted = quantity(cell.twin);
  return measured > 0 && predicted > 0 ? std::abs(predicted / measured - 1) : -1;
}

// How far one repeat of a live cell is from the median of its repeats: what no twin can predict.
double OwnError(const Cell& cell, Quantity quantity) {
  std::vector<double> live = LiveValues(cell, quantity);
  const double measured = Quantile(live, 0.5);
  if (!(measured > 0)) return -1;
  for (double& value : live) value = std::abs(value / measured - 1);
  return Mean(live);
}

double OfOps(const env::OpWindow& op, double value) { return op.ops < kOpsMin ? 0 : value; }
double ReadP50(const Outcome& o) { return OfOps(o.metrics.read, o.metrics.read.p50_ns); }
double WriteP50(const Outcome& o) { return OfOps(o.metrics.write, o.metrics.write.p50_ns); }
double ReadP99(const Outcome& o) { return OfOps(o.metrics.read, o.metrics.read.p99_ns); }
double WriteP99(const Outcome& o) { return OfOps(o.metrics.write, o.metrics.write.p99_ns); }
double Throughput(const Outcome& o) { return o.bytes_per_s; }

struct ErrorKind {
  const char* name;
  std::vector<Quantity> quantities;
};
const std::vector<ErrorKind>& ErrorKinds() {
  static const std::vector<ErrorKind> kinds = {{"p50_error", {ReadP50, WriteP50}},
                                               {"p99_error", {ReadP99, WriteP99}},
                                               {"throughput_error", {Throughput}}};
  return kinds;
}

void AddErrors(const WorkloadCells& workload, const ErrorKind& kind, bool own,
               std::vector<double>& errors) {
  for (const Cell& cell : workload.cells) {
    for (const Quantity quantity : kind.quantities) {
      const double error = own ? OwnError(cell, quantity) : Error(cell, quantity);
      if (error >= 0) errors.push_back(error);
    }
  }
}

void AddWithInterval(storage_bench::Samples& samples, const std::string& series, double value,
                     const Interval& interval) {
  samples.Add(series, std::min(interval.low, value));
  samples.Add(series, value);
  samples.Add(series, std::max(interval.high, value));
}

std::vector<double> Pick(std::span<const double> values, std::span<const size_t> items) {
  std::vector<double> picked;
  for (const size_t item : items) picked.push_back(values[item]);
  return picked;
}

void JudgeErrors(const std::vector<WorkloadCells>& workloads, storage_bench::Samples& samples) {
  for (const ErrorKind& kind : ErrorKinds()) {
    std::vector<double> all;
    std::vector<double> own;
    for (const WorkloadCells& workload : workloads) {
      std::vector<double> errors;
      AddErrors(workload, kind, /*own=*/false, errors);
      AddErrors(workload, kind, /*own=*/true, own);
      all.insert(all.end(), errors.begin(), errors.end());
      if (errors.empty()) continue;
      samples.Add(fmt::format("{}.{}_median", workload.name, kind.name), Quantile(errors, 0.5));
    }
    if (all.empty()) continue;
    AddWithInterval(samples, fmt::format("fidelity.{}_median", kind.name), Quantile(all, 0.5),
                    Bootstrap(all.size(), [&](std::span<const size_t> items) {
                      return Quantile(Pick(all, items), 0.5);
                    }));
    samples.Add(fmt::format("fidelity.{}_p90", kind.name), Quantile(all, 0.9));
    samples.Add(fmt::format("live.{}_between_repeats", kind.name), Quantile(own, 0.5));
  }
}

// One effect of a setting against the default.
struct OneEffect {
  double live = 0;
  double twin = 0;
  double smallest_detectable = 0;
};

SignAgreement Agreement(std::span<const OneEffect> effects, std::span<const size_t> items) {
  SignAgreement sum;
  for (const size_t item : items) {
    const OneEffect& one = effects[item];
    sum += CompareSigns({&one.live, 1}, {&one.twin, 1}, one.smallest_detectable);
  }
  return sum;
}

std::vector<size_t> AllOf(size_t n) {
  std::vector<size_t> items(n);
  for (size_t i = 0; i < n; ++i) items[i] = i;
  return items;
}

// Of all pairs of settings, not only those with the default: what a search compares.
SignAgreement PairAgreement(const WorkloadCells& workload, const Indexes& indexes) {
  SignAgreement sum;
  const size_t n = indexes.live_mean.size();
  const size_t repeats = workload.cells.back().live.size();
  const double smallest = SmallestDetectableEffect(PooledNoise(indexes.live), repeats, repeats);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      const double live = indexes.live_mean[a] - indexes.live_mean[b];
      const double twin = indexes.twin[a] - indexes.twin[b];
      sum += CompareSigns({&live, 1}, {&twin, 1}, smallest);
    }
  }
  return sum;
}

double RelativeRegret(const Indexes& indexes) {
  return -std::expm1(-Regret(indexes.live, indexes.twin));
}

}  // namespace

bool Saturated(const WorkloadCells& workload, const Cell& cell) {
  return Quantile(LiveValues(cell, Throughput), 0.5) <
         kSaturatedShare * workload.offered_bytes_per_s;
}

void Judge(const std::vector<WorkloadCells>& workloads, storage_bench::Samples& samples) {
  JudgeErrors(workloads, samples);
  std::vector<OneEffect> effects;
  SignAgreement pairs;
  double worst_spearman = 1;
  double worst_regret = 0;
  Interval spearman_interval{.low = 1, .high = 1};
  size_t saturated = 0;
  for (const WorkloadCells& workload : workloads) {
    const Indexes indexes = MakeIndexes(workload);
    std::vector<OneEffect> own;
    for (size_t i = 1; i < workload.cells.size(); ++i) {
      own.push_back({.live = indexes.live_mean[i],
                     .twin = indexes.twin[i],
                     .smallest_detectable = indexes.smallest_detectable});
      saturated += Saturated(workload, workload.cells[i]) ? 1 : 0;
    }
    effects.insert(effects.end(), own.begin(), own.end());
    pairs += PairAgreement(workload, indexes);
    const double spearman = Spearman(indexes.live_mean, indexes.twin);
    const Interval interval = Bootstrap(workload.cells.size(), [&](std::span<const size_t> items) {
      return Spearman(Pick(indexes.live_mean, items), Pick(indexes.twin, items));
    });
    const SignAgreement signs = Agreement(own, AllOf(own.size()));
    const double regret = RelativeRegret(indexes);
    samples.Add(workload.name + ".sign_agreement", signs.share());
    samples.Add(workload.name + ".effects_judged", static_cast<double>(signs.judged));
    samples.Add(workload.name + ".smallest_detectable_effect",
                std::expm1(indexes.smallest_detectable));
    samples.Add(workload.name + ".best_setting_regret", regret);
    AddWithInterval(samples, workload.name + ".spearman", spearman, interval);
    if (spearman < worst_spearman) {
      worst_spearman = spearman;
      spearman_interval = interval;
    }
    worst_regret = std::max(worst_regret, regret);
  }
  const SignAgreement all = Agreement(effects, AllOf(effects.size()));
  AddWithInterval(samples, "fidelity.sign_agreement", all.share(),
                  Bootstrap(effects.size(), [&](std::span<const size_t> items) {
                    return Agreement(effects, items).share();
                  }));
  samples.Add("fidelity.effects_judged", static_cast<double>(all.judged));
  samples.Add("fidelity.pair_sign_agreement", pairs.share());
  samples.Add("fidelity.saturated_cells", static_cast<double>(saturated));
  AddWithInterval(samples, "fidelity.spearman_min", worst_spearman, spearman_interval);
  samples.Add("fidelity.best_setting_regret", worst_regret);
}

namespace {

// The cells that are predicted worst: where to look next.
std::string WorstCells(const std::vector<WorkloadCells>& workloads) {
  constexpr size_t kShown = 12;
  struct Line {
    double error = 0;
    std::string text;
  };
  struct Named {
    const char* name;
    Quantity quantity;
    double unit;
  };
  constexpr Named kNamed[] = {{"read p50 us", ReadP50, 1e3},
                              {"write p50 us", WriteP50, 1e3},
                              {"read p99 us", ReadP99, 1e3},
                              {"write p99 us", WriteP99, 1e3},
                              {"MB/s", Throughput, 1e6}};
  std::vector<Line> lines;
  for (const WorkloadCells& workload : workloads) {
    for (const Cell& cell : workload.cells) {
      for (const Named& one : kNamed) {
        const double error = Error(cell, one.quantity);
        if (error < 0) continue;
        const std::vector<double> live = LiveValues(cell, one.quantity);
        lines.push_back(
            {error, fmt::format("  {:10} setting {:3}  {:13} live {:10.4g} ({:.4g} to "
                                "{:.4g})  twin {:10.4g}\n",
                                workload.name, cell.setting, one.name,
                                Quantile(live, 0.5) / one.unit, Quantile(live, 0) / one.unit,
                                Quantile(live, 1) / one.unit, one.quantity(cell.twin) / one.unit)});
      }
    }
  }
  std::sort(lines.begin(), lines.end(),
            [](const Line& a, const Line& b) { return a.error > b.error; });
  std::string text = "predicted worst:\n";
  for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += lines[i].text;
  return text;
}

}  // namespace

std::string Table(const std::vector<WorkloadCells>& workloads) {
  std::string text = fmt::format("{:10} {:>6} {:>9} {:>6} {:>8} {:>8} {:>8} {:>8} {:>7} {:>9}\n",
                                 "workload", "signs", "of judged", "SDE", "Spearman", "p50 err",
                                 "p99 err", "thr. err", "regret", "saturated");
  for (const WorkloadCells& workload : workloads) {
    const Indexes indexes = MakeIndexes(workload);
    const SignAgreement signs =
        CompareSigns(std::span(indexes.live_mean).subspan(1), std::span(indexes.twin).subspan(1),
                     indexes.smallest_detectable);
    double medians[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      std::vector<double> errors;
      AddErrors(workload, ErrorKinds()[i], /*own=*/false, errors);
      medians[i] = 100 * Quantile(errors, 0.5);
    }
    const auto saturated =
        std::count_if(workload.cells.begin(), workload.cells.end(),
                      [&](const Cell& cell) { return Saturated(workload, cell); });
    text += fmt::format(
        "{:10} {:>4.0f} % {:>9} {:>4.1f} % {:>8.2f} {:>6.1f} % {:>6.1f} % {:>6.1f} % {:>5.1f} % "
        "{:>5} / {}\n",
        workload.name, 100 * signs.share(), signs.judged,
        100 * std::expm1(indexes.smallest_detectable), Spearman(indexes.live_mean, indexes.twin),
        medians[0], medians[1], medians[2], 100 * RelativeRegret(indexes), saturated,
        workload.cells.size());
  }
  return text + WorstCells(workloads);
}

}  // namespace ebb::fidelity_bench
