#include "experiments/landscape_bench/report.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "fmt/format.h"

namespace ebb::landscape_bench {
namespace {

constexpr std::string_view kNeverMoved = "scrub_mibps";  // by SpreadSettings
constexpr double kMattersShare = 0.01;                   // of the variance in some cell

const CellResult& CellAt(const Landscape& landscape, size_t profile, size_t family) {
  return landscape.cells[profile * landscape.families.size() + family];
}

std::string PercentText(double gain) {
  return std::isnan(gain) ? "-" : fmt::format("{:+.1f}", Percent(gain));
}

std::string PercentCsv(double gain) {
  return std::isnan(gain) ? "" : fmt::format("{:.4g}", Percent(gain));
}

std::string SettingText(const Landscape& landscape, size_t position) {
  std::string text;
  const env::Setting& setting = landscape.settings[position];
  for (const env::KnobChange& change : Diff(landscape.space, landscape.space.Default(), setting)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", change.knob,
                        landscape.space.FormatValue(*landscape.space.Find(change.knob), change.to));
  }
  return text.empty() ? "default" : text;
}

std::string GainTableText(const Landscape& landscape, size_t goal) {
  std::string text = fmt::format(
      "\nGoal {}: index against the default, percent; faster: how much shorter clients wait on "
      "average with the best\n{:10} {:18} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
      kGoalWords[goal], "class", "family", "ops/s", "preset", "static", "best", "faster");
  for (const CellResult& one : landscape.cells) {
    const GoalResult& seen = one.goals[goal];
    if (std::isnan(seen.gain)) continue;
    std::string_view note;
    if (seen.gain < std::log1p(kGainMin)) {
      note = "nothing to gain";
    } else if (seen.gain - seen.static_gain < std::log1p(kGainMin)) {
      note = "the static setting has it";
    }
    text += fmt::format("{:10} {:18} {:8.0f} {:>8} {:>8} {:>8} {:>8}   {}\n",
                        Profiles()[one.cell.profile].device_class,
                        landscape.families[one.cell.family], one.cell.ops_per_s,
                        PercentText(seen.preset_gain), PercentText(seen.static_gain),
                        PercentText(seen.gain), PercentText(seen.client_gain), note);
  }
  return text;
}

std::string KnobTableText(const Landscape& landscape, size_t goal) {
  std::string text = fmt::format(
      "\nGoal {}: share of the variance of ln(index) over the settings that one knob explains by "
      "itself,\npercent, mean over the families (maximum)\n{:26}",
      kGoalWords[goal], "knob");
  for (const Profile& profile : Profiles()) text += fmt::format(" {:>12}", profile.device_class);
  text += "\n";
  for (size_t knob = 0; knob < landscape.space.size(); ++knob) {
    if (landscape.space[knob].name == kNeverMoved) continue;
    text += fmt::format("{:26}", landscape.space[knob].name);
    for (size_t profile = 0; profile < Profiles().size(); ++profile) {
      double sum = 0;
      double largest = 0;
      for (size_t family = 0; family < landscape.families.size(); ++family) {
        const double share = CellAt(landscape, profile, family).goals[goal].variance_shares[knob];
        sum += share;
        largest = std::max(largest, share);
      }
      text +=
          fmt::format(" {:5.1f} ({:4.1f})",
                      100 * sum / static_cast<double>(landscape.families.size()), 100 * largest);
    }
    text += "\n";
  }
  return text;
}

std::string RegretTableText(const Landscape& landscape, size_t goal, size_t profile) {
  std::string text = fmt::format(
      "\nGoal {}, {}: what the best setting of one family (line) loses on another (column) against "
      "its best, percent of the index\n{:18}",
      kGoalWords[goal], Profiles()[profile].device_class, "");
  for (size_t on = 0; on < landscape.families.size(); ++on) text += fmt::format(" {:>5}", on + 1);
  text += "\n";
  for (size_t from = 0; from < landscape.families.size(); ++from) {
    text += fmt::format("{:>2} {:15}", from + 1, landscape.families[from]);
    for (const double regret : landscape.regrets[goal][profile][from]) {
      text += std::isnan(regret) ? fmt::format(" {:>5}", "-")
                                 : fmt::format(" {:5.0f}", -Percent(-regret));
    }
    text += "\n";
  }
  return text;
}

std::string CellColumns(const Landscape& landscape, const Cell& cell, size_t goal) {
  return fmt::format("{},{},{}", Profiles()[cell.profile].device_class,
                     landscape.families[cell.family], kGoalWords[goal]);
}

}  // namespace

std::string LandscapeText(const Landscape& landscape) {
  std::string text;
  for (size_t goal = 0; goal < kGoals.size(); ++goal) {
    text += GainTableText(landscape, goal);
    for (size_t profile = 0; profile < Profiles().size(); ++profile) {
      text += fmt::format("static setting of {}: {}\n", Profiles()[profile].device_class,
                          SettingText(landscape, landscape.statics[goal][profile]));
    }
    const SingleSetting& single = landscape.single[goal];
    if (!std::isnan(single.worst_regret)) {
      const Cell& worst = landscape.cells[single.worst_cell].cell;
      text += fmt::format(
          "The setting nearest to the best everywhere loses {:.1f} % on {} on {}: {}\n",
          -Percent(-single.worst_regret), landscape.families[worst.family],
          Profiles()[worst.profile].device_class, SettingText(landscape, single.setting));
    }
    text += KnobTableText(landscape, goal);
  }
  for (size_t profile = 0; profile < Profiles().size(); ++profile) {
    text += RegretTableText(landscape, kBalanced, profile);
  }
  text += fmt::format(
      "\n{} runs; {} would have been refused by the guard and gain nothing, {} could not run.\n",
      landscape.runs, landscape.refused_runs, landscape.failed_runs);
  return text;
}

std::string CellsCsv(const Landscape& landscape) {
  std::string csv =
      "class,family,goal,ops_per_s,seconds,preset_percent,static_percent,best_percent,"
      "best_client_percent,swept_percent,swept_deviation,nothing_to_gain";
  for (const env::KnobSpec& knob : landscape.space.knobs()) csv += ",best_" + knob.name;
  csv += "\n";
  for (const CellResult& one : landscape.cells) {
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      const GoalResult& seen = one.goals[goal];
      if (std::isnan(seen.gain)) continue;
      csv += fmt::format(
          "{},{:.6g},{:.6g},{},{},{},{},{},{:.4g},{}", CellColumns(landscape, one.cell, goal),
          one.cell.ops_per_s, one.cell.seconds, PercentCsv(seen.preset_gain),
          PercentCsv(seen.static_gain), PercentCsv(seen.gain), PercentCsv(seen.client_gain),
          PercentCsv(seen.swept), seen.swept_deviation, seen.gain < std::log1p(kGainMin) ? 1 : 0);
      for (const int64_t value : landscape.settings[seen.best].values) {
        csv += fmt::format(",{}", value);
      }
      csv += "\n";
    }
  }
  return csv;
}

std::string KnobsCsv(const Landscape& landscape) {
  std::string csv = "class,family,goal,knob,variance_share\n";
  for (const CellResult& one : landscape.cells) {
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      if (std::isnan(one.goals[goal].gain)) continue;
      for (size_t knob = 0; knob < landscape.space.size(); ++knob) {
        csv += fmt::format("{},{},{:.4g}\n", CellColumns(landscape, one.cell, goal),
                           landscape.space[knob].name, one.goals[goal].variance_shares[knob]);
      }
    }
  }
  return csv;
}

std::string RegretsCsv(const Landscape& landscape) {
  std::string csv = "class,goal,best_of,on,lost_percent\n";
  for (size_t goal = 0; goal < kGoals.size(); ++goal) {
    for (size_t profile = 0; profile < Profiles().size(); ++profile) {
      for (size_t from = 0; from < landscape.families.size(); ++from) {
        for (size_t on = 0; on < landscape.families.size(); ++on) {
          const double regret = landscape.regrets[goal][profile][from][on];
          if (std::isnan(regret)) continue;
          csv += fmt::format("{},{},{},{},{:.4g}\n", Profiles()[profile].device_class,
                             kGoalWords[goal], landscape.families[from], landscape.families[on],
                             -Percent(-regret));
        }
      }
    }
  }
  return csv;
}

const std::vector<storage_bench::FigureSpec>& LandscapeFigures() {
  using storage_bench::Direction;
  static const std::vector<storage_bench::FigureSpec> table = {
      {"families",
       "workload families",
       Direction::kAtLeast,
       12,
       "families",
       {},
       "shapes of loads, each at a rate that the default setting bears"},
      {"profiles",
       "device classes",
       Direction::kAtLeast,
       3,
       "profiles",
       {},
       "two capacity devices of the class behind a cache of NVMe"},
      {"settings",
       "settings",
       Direction::kAtLeast,
       2'000,
       "settings",
       {},
       "Sobol points over all knobs but the scrubber, in every cell, on a sample of the load"},
      {"best_gain_median_percent",
       "percent of the index",
       Direction::kAtLeast,
       3,
       "best_gain_percent.median",
       {},
       "median over families, classes and goals: the best setting against the default, unsampled, "
       "chosen with other seeds than these"},
      {"nothing_to_gain_share",
       "share",
       Direction::kAtMost,
       0.5,
       "nothing_to_gain_share",
       {},
       "cells and goals where the best setting is less than 3 % better than the default"},
      {"single_setting_worst_regret",
       "percent of the index",
       Direction::kAtLeast,
       5,
       "single_setting_worst_regret.least",
       {},
       "what the setting that comes nearest to the best everywhere loses where it loses most, the "
       "least of the three goals"},
  };
  return table;
}

storage_bench::Samples LandscapeSamples(const Landscape& landscape) {
  storage_bench::Samples samples;
  samples.Add("families", static_cast<double>(landscape.families.size()));
  samples.Add("profiles", static_cast<double>(Profiles().size()));
  samples.Add("settings", static_cast<double>(landscape.settings.size() - Profiles().size() - 1));
  samples.Add("failed_runs", static_cast<double>(landscape.failed_runs));
  samples.Add("refused_share", static_cast<double>(landscape.refused_runs) /
                                   static_cast<double>(std::max<size_t>(landscape.runs, 1)));
  std::vector<double> gains;
  std::vector<double> over_static;
  std::vector<double> faster;
  double nothing = 0;
  for (const CellResult& one : landscape.cells) {
    for (size_t goal = 0; goal < kGoals.size(); ++goal) {
      const GoalResult& seen = one.goals[goal];
      if (std::isnan(seen.gain)) continue;
      gains.push_back(Percent(seen.gain));
      over_static.push_back(Percent(seen.gain - seen.static_gain));
      faster.push_back(Percent(seen.client_gain));
      nothing += seen.gain < std::log1p(kGainMin) ? 1 : 0;
    }
  }
  if (gains.empty()) return samples;
  samples.Add("best_gain_percent.median", storage_bench::Median(gains));
  samples.Add("best_gain_percent.max", *std::max_element(gains.begin(), gains.end()));
  samples.Add("best_over_static_percent.median", storage_bench::Median(over_static));
  samples.Add("best_client_percent.median", storage_bench::Median(faster));
  samples.Add("nothing_to_gain_share", nothing / static_cast<double>(gains.size()));
  double least = kNone;
  for (size_t goal = 0; goal < kGoals.size(); ++goal) {
    const double regret = -Percent(-landscape.single[goal].worst_regret);
    if (std::isnan(regret)) continue;
    samples.Add(fmt::format("single_setting_worst_regret.{}", kGoalWords[goal]), regret);
    if (!(regret >= least)) least = regret;
    std::vector<double> crossed;
    for (const GainTable& table : landscape.regrets[goal]) {
      for (size_t from = 0; from < table.size(); ++from) {
        for (size_t on = 0; on < table.size(); ++on) {
          if (from != on && !std::isnan(table[from][on])) {
            crossed.push_back(-Percent(-table[from][on]));
          }
        }
      }
    }
    if (!crossed.empty()) {
      samples.Add(fmt::format("cross_regret_percent.{}.median", kGoalWords[goal]),
                  storage_bench::Median(crossed));
    }
  }
  if (!std::isnan(least)) samples.Add("single_setting_worst_regret.least", least);
  double matter = 0;
  for (size_t knob = 0; knob < landscape.space.size(); ++knob) {
    bool matters = false;
    for (const CellResult& one : landscape.cells) {
      for (const GoalResult& seen : one.goals) {
        matters = matters || seen.variance_shares[knob] >= kMattersShare;
      }
    }
    matter += matters ? 1 : 0;
  }
  samples.Add("knobs_that_matter", matter);
  return samples;
}

}  // namespace ebb::landscape_bench
