// Question: how often does the guard err, and what does a trial cost?
//
// Simulates trials with a known true effect over noise size, autocorrelation, tails and drift,
// beside two naive guards, prints the table and writes the figures with their bars as JSON. Exits
// with 1 when a bar does not hold.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "base/text_file.h"
#include "engine/guard/trial_simulation.h"

namespace ebb::engine {
namespace {

constexpr double kEffects[] = {-0.5, -0.2, -0.1, -0.05, -0.03, 0, 0.03, 0.05, 0.1, 0.2};
constexpr double kNoises[] = {0.02, 0.05, 0.10, 0.20};
constexpr double kCorrelations[] = {0, 0.5, 0.8};
constexpr double kDrifts[] = {0, -0.005};

struct Cell {
  TrialScenario scenario;
  uint32_t trials = 0;
  uint32_t kept = 0;
  uint32_t reverted = 0;
  uint32_t reverted_within2 = 0;
  uint32_t reverted_within5 = 0;
  uint32_t intervals = 0;
  uint32_t covered = 0;
  uint32_t naive1_reverted = 0;
  uint32_t naive8_reverted = 0;
  double windows_median = 0;
};

double Share(uint32_t count, uint32_t of) { return of == 0 ? 0 : static_cast<double>(count) / of; }

// Ends of the 95 % interval of a proportion (Wilson).
std::pair<double, double> Wilson(double share, double trials) {
  const double z2 = 1.96 * 1.96;
  const double middle = (share + z2 / (2 * trials)) / (1 + z2 / trials);
  const double half = 1.96 / (1 + z2 / trials) *
                      std::sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

void RunCell(Cell& cell, const TrialConfig& config, uint32_t trials, uint64_t seed) {
  std::vector<uint32_t> windows;
  windows.reserve(trials);
  for (uint32_t i = 0; i < trials; ++i) {
    const uint64_t trial_seed = seed + i;
    const TrialOutcome outcome = SimulateTrial(cell.scenario, config, trial_seed);
    const bool reverted = outcome.verdict == Verdict::kRevert;
    cell.kept += outcome.verdict == Verdict::kKeep ? 1 : 0;
    cell.reverted += reverted ? 1 : 0;
    cell.reverted_within2 += reverted && outcome.windows <= 2 ? 1 : 0;
    cell.reverted_within5 += reverted && outcome.windows <= 5 ? 1 : 0;
    cell.intervals += outcome.has_interval ? 1 : 0;
    cell.covered += outcome.covered ? 1 : 0;
    windows.push_back(outcome.windows);
    for (const uint32_t side : {1U, 8U}) {
      const bool naive_reverted =
          SimulateNaiveTrial(cell.scenario, side, trial_seed).verdict == Verdict::kRevert;
      (side == 1 ? cell.naive1_reverted : cell.naive8_reverted) += naive_reverted ? 1 : 0;
    }
  }
  cell.trials = trials;
  std::nth_element(windows.begin(), windows.begin() + static_cast<ptrdiff_t>(trials / 2),
                   windows.end());
  cell.windows_median = windows[trials / 2];
}

std::vector<Cell> MakeCells() {
  std::vector<Cell> cells;
  auto add = [&cells](const TrialScenario& scenario) {
    Cell cell;
    cell.scenario = scenario;
    cells.push_back(cell);
  };
  for (const double noise : kNoises) {
    for (const double rho : kCorrelations) {
      for (const bool heavy : {false, true}) {
        for (const double drift : kDrifts) {
          for (const double effect : kEffects) add({effect, noise, rho, heavy, drift, 0, 30});
        }
      }
    }
  }
  // A load that wanders slowly, on top of the usual noise.
  for (const double effect : kEffects) add({effect, 0.05, 0.5, false, 0, 0.05, 30});
  return cells;
}

void RunCells(std::vector<Cell>& cells, uint32_t trials, uint64_t seed, uint32_t threads) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < cells.size(); i = next++) {
      RunCell(cells[i], TrialConfig{}, trials, seed + 1'000'003 * i);
      if (i % 60 == 0) fmt::print(stderr, "[guard bench] {} of {} cells\n", i, cells.size());
    }
  };
  std::vector<std::jthread> workers;
  for (uint32_t i = 0; i < threads; ++i) workers.emplace_back(work);
}

struct Figure {
  std::string name;
  std::string unit = "share of trials";
  double value = 0;
  std::pair<double, double> interval{0, 0};
  std::string bar;
  bool holds = false;
};

class Figures {
 public:
  explicit Figures(const std::vector<Cell>& cells) : cells_(cells) {}

  // The worst cell of `filter`; `more_is_worse` tells the direction of the bar.
  template <typename Filter, typename Value>
  void Add(const std::string& name, Filter filter, Value value, bool more_is_worse, double bar,
           const std::string& unit = "share of trials") {
    const Cell* worst = nullptr;
    for (const Cell& cell : cells_) {
      if (!filter(cell.scenario)) continue;
      if (worst == nullptr || (value(cell) > value(*worst)) == more_is_worse) worst = &cell;
    }
    Figure figure{name, unit, value(*worst), {}, {}, false};
    figure.interval = unit == "windows" ? std::pair(figure.value, figure.value)
                                        : Wilson(figure.value, worst->trials);
    figure.bar = fmt::format("{} {}", more_is_worse ? "<=" : ">=", bar);
    figure.holds = more_is_worse ? figure.value <= bar : figure.value >= bar;
    figures_.push_back(figure);
  }

  // Coverage over all effects, for the noise kind and drift where it is farthest from 95 %.
  void AddCoverage(const std::string& name, double noise) {
    std::map<std::pair<bool, double>, std::pair<uint32_t, uint32_t>> groups;
    for (const Cell& cell : cells_) {
      const TrialScenario& s = cell.scenario;
      if (s.noise_sd != noise || s.autocorrelation != 0.5 || s.slow_sd > 0) continue;
      auto& [covered, intervals] = groups[{s.heavy_tails, s.drift_per_window}];
      covered += cell.covered;
      intervals += cell.intervals;
    }
    Figure figure{name, "share of trials", 0.95, {}, "0.93 to 0.97", false};
    for (const auto& [key, group] : groups) {
      const double share = Share(group.first, group.second);
      if (std::abs(share - 0.95) < std::abs(figure.value - 0.95)) continue;
      figure.value = share;
      figure.interval = Wilson(share, group.second);
    }
    figure.holds = figure.value >= 0.93 && figure.value <= 0.97;
    figures_.push_back(figure);
  }

  const std::vector<Figure>& all() const { return figures_; }

 private:
  const std::vector<Cell>& cells_;
  std::vector<Figure> figures_;
};

void AddBars(Figures& figures, double noise, const std::string& suffix) {
  auto at = [noise](auto matches) {
    return [noise, matches](const TrialScenario& s) {
      return s.noise_sd == noise && s.autocorrelation == 0.5 && s.slow_sd == 0 && matches(s.effect);
    };
  };
  auto kept = [](const Cell& c) { return Share(c.kept, c.trials); };
  auto windows = [](const Cell& c) { return c.windows_median; };
  auto within2 = [](const Cell& c) { return Share(c.reverted_within2, c.trials); };
  auto within5 = [](const Cell& c) { return Share(c.reverted_within5, c.trials); };
  figures.Add("kept_at_minus3" + suffix, at([](double e) { return e <= -0.03; }), kept, true,
              0.005);
  figures.Add("kept_at_zero" + suffix, at([](double e) { return e == 0; }), kept, true, 0.02);
  figures.Add("windows_median_at_zero" + suffix, at([](double e) { return e == 0; }), windows, true,
              18, "windows");
  figures.Add("kept_at_plus10" + suffix, at([](double e) { return e == 0.1; }), kept, false, 0.9);
  figures.Add("windows_median_at_plus10" + suffix, at([](double e) { return e == 0.1; }), windows,
              true, 40, "windows");
  figures.Add("reverted_within5_at_minus20" + suffix, at([](double e) { return e == -0.2; }),
              within5, false, 0.9);
  figures.Add("reverted_within2_at_minus50" + suffix, at([](double e) { return e == -0.5; }),
              within2, false, 0.99);
  figures.AddCoverage("interval_coverage" + suffix, noise);
}

Figures MakeFigures(const std::vector<Cell>& cells) {
  Figures figures(cells);
  AddBars(figures, 0.05, "");
  AddBars(figures, 0.02, "_cv2");
  auto kept = [](const Cell& c) { return Share(c.kept, c.trials); };
  figures.Add(
      "kept_at_zero_drift", [](const TrialScenario& s) { return s.slow_sd > 0 && s.effect == 0; },
      kept, true, 0.005);
  for (const int percent : {10, 20}) {
    figures.Add(
        fmt::format("kept_at_minus3_cv{}", percent),
        [percent](const TrialScenario& s) {
          return s.noise_sd == percent / 100.0 && s.effect <= -0.03;
        },
        kept, true, 0.005);
  }
  return figures;
}

void PrintTable(const std::vector<Cell>& cells) {
  fmt::print(
      "                                          |            Ebb's guard, % of trials            "
      "  | naive 1+1 | naive 8+8\n"
      "noise rho  tails    drift/win  slow effect | keep  revert  in 5w  cover  median windows "
      " |  revert   |  revert\n");
  for (const Cell& c : cells) {
    const TrialScenario& s = c.scenario;
    fmt::print(
        "{:4.0f}% {:.1f}  {:8} {:+.1f}%  {:4.0f}% {:+5.0f}% | {:5.1f} {:6.1f} {:6.1f} {:6.1f} "
        "{:9.0f} "
        "       | {:7.1f}   | {:7.1f}\n",
        100 * s.noise_sd, s.autocorrelation, s.heavy_tails ? "heavy" : "gaussian",
        100 * s.drift_per_window, 100 * s.slow_sd, 100 * s.effect, 100 * Share(c.kept, c.trials),
        100 * Share(c.reverted, c.trials), 100 * Share(c.reverted_within5, c.trials),
        100 * Share(c.covered, c.intervals), c.windows_median,
        100 * Share(c.naive1_reverted, c.trials), 100 * Share(c.naive8_reverted, c.trials));
  }
}

nlohmann::json Machine() {
  utsname names{};
  uname(&names);
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown";
  while (std::getline(cpuinfo, line)) {
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  return {{"cpu", model},
          {"cores", std::thread::hardware_concurrency()},
          {"kernel", std::string(names.release)}};
}

nlohmann::json ToJson(const std::vector<Cell>& cells, const std::vector<Figure>& figures,
                      const std::string& commit, uint64_t seed) {
  nlohmann::json out{{"bench", "guard"},
                     {"machine", Machine()},
                     {"commit", commit},
                     {"seed", seed},
                     {"figures", nlohmann::json::array()},
                     {"table", nlohmann::json::array()}};
  for (const Figure& f : figures) {
    out["figures"].push_back({{"name", f.name},
                              {"value", f.value},
                              {"unit", f.unit},
                              {"bar", f.bar},
                              {"holds", f.holds},
                              {"interval", {f.interval.first, f.interval.second}}});
  }
  for (const Cell& c : cells) {
    const TrialScenario& s = c.scenario;
    out["table"].push_back({{"noise_sd", s.noise_sd},
                            {"autocorrelation", s.autocorrelation},
                            {"heavy_tails", s.heavy_tails},
                            {"drift_per_window", s.drift_per_window},
                            {"slow_sd", s.slow_sd},
                            {"effect", s.effect},
                            {"trials", c.trials},
                            {"kept", Share(c.kept, c.trials)},
                            {"reverted", Share(c.reverted, c.trials)},
                            {"reverted_within2", Share(c.reverted_within2, c.trials)},
                            {"reverted_within5", Share(c.reverted_within5, c.trials)},
                            {"coverage", Share(c.covered, c.intervals)},
                            {"windows_median", c.windows_median},
                            {"naive1_reverted", Share(c.naive1_reverted, c.trials)},
                            {"naive8_reverted", Share(c.naive8_reverted, c.trials)}});
  }
  return out;
}

int Main(int argc, char** argv) {
  CLI::App app{"Error rates of the guard, simulated"};
  std::string out_path;
  std::string commit = "unknown";
  uint32_t trials = 2000;
  uint32_t threads = std::max(1U, std::thread::hardware_concurrency());
  uint64_t seed = 20260;
  app.add_option("--out", out_path, "write the figures as JSON to this file");
  app.add_option("--commit", commit, "commit to name in the file");
  app.add_option("--trials", trials, "trials in each cell of the table")
      ->check(CLI::Range(10, 1000000));
  app.add_option("--threads", threads, "worker threads")->check(CLI::Range(1, 256));
  app.add_option("--seed", seed, "seed of the first trial");
  CLI11_PARSE(app, argc, argv);

  std::vector<Cell> cells = MakeCells();
  RunCells(cells, trials, seed, threads);
  const Figures figures = MakeFigures(cells);
  PrintTable(cells);
  bool all_hold = true;
  fmt::print("\n{:36} {:>8}  {:>17}  {:14}\n", "figure", "value", "95 % interval", "bar");
  for (const Figure& f : figures.all()) {
    all_hold = all_hold && f.holds;
    fmt::print("{:36} {:8.4f}  {:8.4f} {:8.4f}  {:14} {}\n", f.name, f.value, f.interval.first,
               f.interval.second, f.bar, f.holds ? "holds" : "DOES NOT HOLD");
  }
  if (!out_path.empty()) {
    const std::string json = ToJson(cells, figures.all(), commit, seed).dump(1) + "\n";
    if (const absl::Status status = WriteTextFile(out_path, json); !status.ok()) {
      fmt::print(stderr, "{}\n", status.ToString());
      return 2;
    }
  }
  return all_hold ? 0 : 1;
}

}  // namespace
}  // namespace ebb::engine

int main(int argc, char** argv) {
  try {
    return ebb::engine::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "guard bench: {}\n", error.what());
    return 2;
  }
}
