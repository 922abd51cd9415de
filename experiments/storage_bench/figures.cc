#include "experiments/storage_bench/figures.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::storage_bench {
namespace {

std::string BarText(const FigureSpec& spec) {
  if (spec.direction == Direction::kNear) return fmt::format("{} +- {}", spec.bar, spec.tolerance);
  return fmt::format("{} {}", spec.direction == Direction::kAtLeast ? ">=" : "<=", spec.bar);
}

bool Holds(const FigureSpec& spec, double value) {
  switch (spec.direction) {
    case Direction::kAtLeast:
      return value >= spec.bar;
    case Direction::kAtMost:
      return value <= spec.bar;
    case Direction::kNear:
      return std::abs(value - spec.bar) <= spec.tolerance;
  }
  return false;
}

}  // namespace

std::span<const double> Samples::Of(const std::string& series) const {
  const auto found = values_.find(series);
  return found == values_.end() ? std::span<const double>() : found->second;
}

double Median(std::span<const double> values) {
  EBB_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

Figure Evaluate(const FigureSpec& spec, const Samples& samples) {
  Figure figure;
  figure.spec = &spec;
  const std::span<const double> own = samples.Of(spec.series);
  std::vector<double> values(own.begin(), own.end());
  double best = 0;
  for (const std::string& peer : spec.peers) {
    const std::span<const double> theirs = samples.Of(peer);
    if (theirs.size() != own.size() || theirs.empty()) return figure;
    if (Median(theirs) > best) {
      best = Median(theirs);
      figure.peer = peer;
    }
  }
  if (values.empty() || (best <= 0 && !spec.peers.empty())) return figure;
  if (!spec.peers.empty()) {
    const std::span<const double> theirs = samples.Of(figure.peer);
    for (size_t i = 0; i < values.size(); ++i) values[i] /= theirs[i];
  }
  figure.measured = true;
  figure.value = Median(values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  figure.low = *low;
  figure.high = *high;
  figure.holds = Holds(spec, figure.value);
  return figure;
}

std::string FormatTable(std::span<const Figure> figures, const Samples& samples) {
  std::string text = fmt::format("{:38} {:>10}  {:>21}  {:10} {}\n", "figure", "median",
                                 "range of the repeats", "bar", "");
  for (const Figure& figure : figures) {
    if (!figure.measured) continue;
    text += fmt::format("{:38} {:10.4g}  {:>10.4g} {:>10.4g}  {:10} {}\n", figure.spec->name,
                        figure.value, figure.low, figure.high, BarText(*figure.spec),
                        figure.holds ? "holds" : "DOES NOT HOLD");
  }
  text += fmt::format("\n{:58} {:>10}  {:>21}\n", "series", "median", "range of the repeats");
  for (const auto& [name, values] : samples.all()) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    text += fmt::format("{:58} {:10.4g}  {:>10.4g} {:>10.4g}\n", name, Median(values), *low, *high);
  }
  return text;
}

nlohmann::json ToJson(std::span<const Figure> figures, const Samples& samples) {
  nlohmann::json out{{"figures", nlohmann::json::array()}, {"series", nlohmann::json::object()}};
  for (const Figure& figure : figures) {
    nlohmann::json entry{
        {"name", figure.spec->name}, {"unit", figure.spec->unit}, {"bar", BarText(*figure.spec)},
        {"holds", figure.holds},     {"value", nullptr},          {"interval", nullptr},
        {"how", figure.spec->how}};
    if (figure.measured) {
      entry["value"] = figure.value;
      entry["interval"] = {figure.low, figure.high};
    }
    if (!figure.peer.empty()) entry["peer"] = figure.peer;
    out["figures"].push_back(std::move(entry));
  }
  for (const auto& [name, values] : samples.all()) {
    out["series"][name] = {{"median", Median(values)}, {"repeats", values}};
  }
  return out;
}

}  // namespace ebb::storage_bench
