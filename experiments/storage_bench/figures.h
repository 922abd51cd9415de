// The figures of the storage bench: what each is made of, its bar, and how the samples of several
// repeats become one value.
//
// A study adds samples to named series, one a repeat. A figure is a series, or the ratio of one to
// the best of its peers; peers are measured in the same repeat, so a ratio is taken inside each
// repeat and the median of the ratios is the value. Pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ebb::storage_bench {

// What the repeats measured, by series.
class Samples {
 public:
  void Add(const std::string& series, double value) { values_[series].push_back(value); }
  // Empty when nothing was added.
  std::span<const double> Of(const std::string& series) const;
  const std::map<std::string, std::vector<double>>& all() const { return values_; }

 private:
  std::map<std::string, std::vector<double>> values_;
};

// The middle value, or the mean of the two in the middle. `values` is not empty.
double Median(std::span<const double> values);

enum class Direction { kAtLeast, kAtMost, kNear };

struct FigureSpec {
  std::string name;
  std::string unit;
  Direction direction = Direction::kAtLeast;
  double bar = 0;
  std::string series;
  std::vector<std::string> peers;  // series too; empty: the figure is no ratio
  std::string how;                 // what was measured, one sentence, for the report
  double tolerance = 0;            // of kNear: how far from the bar still holds
};

// Every figure, in the order of the report.
const std::vector<FigureSpec>& FigureTable();

struct Figure {
  const FigureSpec* spec = nullptr;
  double value = 0;
  // Range of the repeats: of five it holds the true median with 94 % confidence.
  double low = 0;
  double high = 0;
  bool measured = false;
  bool holds = false;  // false when not measured
  std::string peer;    // the one that was divided by
};

Figure Evaluate(const FigureSpec& spec, const Samples& samples);

// One line a figure, then one line a series.
std::string FormatTable(std::span<const Figure> figures, const Samples& samples);

nlohmann::json ToJson(std::span<const Figure> figures, const Samples& samples);

}  // namespace ebb::storage_bench
