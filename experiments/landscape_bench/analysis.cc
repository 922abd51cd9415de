#include "experiments/landscape_bench/analysis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace ebb::landscape_bench {
namespace {

// The class of each setting by one knob's value.
std::vector<size_t> Classes(std::span<const env::Setting> settings, size_t knob, size_t bins) {
  std::map<int64_t, size_t> counts;
  for (const env::Setting& setting : settings) ++counts[setting.values[knob]];
  std::map<int64_t, size_t> classes;
  size_t before = 0;
  for (const auto& [value, count] : counts) {
    // By the middle of the value's settings in the order of values.
    classes[value] =
        counts.size() <= bins ? classes.size() : (2 * before + count) * bins / 2 / settings.size();
    before += count;
  }
  std::vector<size_t> result;
  for (const env::Setting& setting : settings) result.push_back(classes[setting.values[knob]]);
  return result;
}

// Omega squared of the classes: (SSB - (k - 1) MSW) / (SST + MSW).
double ShareOf(std::span<const size_t> classes, std::span<const double> gains) {
  struct Class {
    double sum = 0;
    double count = 0;
  };
  std::map<size_t, Class> by_class;
  double sum = 0;
  double count = 0;
  for (size_t i = 0; i < gains.size(); ++i) {
    if (std::isnan(gains[i])) continue;
    Class& own = by_class[classes[i]];
    own.sum += gains[i];
    ++own.count;
    sum += gains[i];
    ++count;
  }
  const double groups = static_cast<double>(by_class.size());
  if (groups < 2 || count <= groups) return 0;
  const double mean = sum / count;
  double total = 0;
  for (const double gain : gains) {
    if (!std::isnan(gain)) total += (gain - mean) * (gain - mean);
  }
  double between = 0;
  for (const auto& [number, own] : by_class) {
    between += own.count * (own.sum / own.count - mean) * (own.sum / own.count - mean);
  }
  const double within_mean = (total - between) / (count - groups);
  if (!(total > 0)) return 0;
  return std::max(0.0, (between - (groups - 1) * within_mean) / (total + within_mean));
}

double BestOf(std::span<const double> gains) {
  double best = kNone;
  for (const double gain : gains) {
    if (!std::isnan(gain) && !(gain <= best)) best = gain;
  }
  return best;
}

// Folds each setting's figure in each cell that has any into one figure a setting.
template <typename Fold>
std::vector<double> OverCells(const GainTable& cells, double begin, const Fold& fold) {
  std::vector<double> result;
  for (const std::vector<double>& cell : cells) {
    const double best = BestOf(cell);
    if (std::isnan(best)) continue;
    result.resize(cell.size(), begin);
    EBB_CHECK(result.size() == cell.size());
    for (size_t i = 0; i < cell.size(); ++i) result[i] = fold(result[i], cell[i], best);
  }
  return result;
}

}  // namespace

double Percent(double gain) { return 100 * std::expm1(gain); }

std::vector<size_t> Largest(std::span<const double> gains, size_t count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < gains.size(); ++i) {
    if (!std::isnan(gains[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return gains[a] > gains[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

std::vector<double> MeanGains(const GainTable& cells) {
  double count = 0;
  for (const std::vector<double>& cell : cells) count += std::isnan(BestOf(cell)) ? 0 : 1;
  return OverCells(cells, 0, [&](double sum, double gain, double) { return sum + gain / count; });
}

std::vector<double> WorstRegrets(const GainTable& cells) {
  return OverCells(cells, 0, [](double worst, double gain, double best) {
    // A failure stays one.
    return std::isnan(worst) || std::isnan(gain) ? kNone : std::max(worst, best - gain);
  });
}

std::vector<double> VarianceShares(const env::KnobSpace& space,
                                   std::span<const env::Setting> settings,
                                   std::span<const double> gains, size_t bins) {
  EBB_CHECK(settings.size() == gains.size() && bins > 1);
  std::vector<double> shares;
  for (size_t knob = 0; knob < space.size(); ++knob) {
    shares.push_back(ShareOf(Classes(settings, knob, bins), gains));
  }
  return shares;
}

}  // namespace ebb::landscape_bench
