#include "experiments/fidelity_bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"

namespace ebb::fidelity_bench {
namespace {

constexpr int kDraws = 1'000;

// Quantile of Student's t by Cornish and Fisher's expansion: within 1 % from 5 degrees on.
double StudentQuantile(double normal, double freedom) {
  const double z = normal;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + end - 1) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = shared;
  }
  return ranks;
}

}  // namespace

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Quantile(std::span<const double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double Spearman(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = Ranks(a);
  const std::vector<double> y = Ranks(b);
  const double mean_x = Mean(x);
  const double mean_y = Mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

Noise PooledNoise(std::span<const std::vector<double>> groups) {
  double squares = 0;
  size_t freedom = 0;
  for (const std::vector<double>& group : groups) {
    if (group.size() < 2) continue;
    const double mean = Mean(group);
    for (const double value : group) squares += (value - mean) * (value - mean);
    freedom += group.size() - 1;
  }
  if (freedom == 0) return {};
  return {.sd = std::sqrt(squares / static_cast<double>(freedom)), .freedom = freedom};
}

double SmallestDetectableEffect(const Noise& noise, size_t n, size_t m) {
  if (noise.freedom == 0 || n == 0 || m == 0) return 0;
  constexpr double kTwoSided5Percent = 1.959964;
  constexpr double kPower80Percent = 0.841621;
  const auto freedom = static_cast<double>(noise.freedom);
  const double deviates =
      StudentQuantile(kTwoSided5Percent, freedom) + StudentQuantile(kPower80Percent, freedom);
  return deviates * noise.sd * std::sqrt(1 / static_cast<double>(n) + 1 / static_cast<double>(m));
}

SignAgreement CompareSigns(std::span<const double> live, std::span<const double> twin,
                           double smallest_detectable) {
  SignAgreement result;
  for (size_t i = 0; i < live.size(); ++i) {
    if (std::abs(live[i]) <= smallest_detectable) continue;
    ++result.judged;
    if ((live[i] > 0) == (twin[i] > 0) && twin[i] != 0) ++result.agree;
  }
  return result;
}

double Regret(std::span<const std::vector<double>> live, std::span<const double> twin) {
  if (live.empty()) return 0;
  const auto chosen =
      static_cast<size_t>(std::max_element(twin.begin(), twin.end()) - twin.begin());
  size_t repeats = live.front().size();
  for (const std::vector<double>& one : live) repeats = std::min(repeats, one.size());
  double sum = 0;
  for (size_t judge = 0; judge < repeats; ++judge) {
    // With one repeat only there are no others to choose by.
    const auto by_others = [&](size_t i) {
      if (repeats == 1) return live[i].front();
      double total = 0;
      for (size_t r = 0; r < repeats; ++r) total += r == judge ? 0 : live[i][r];
      return total;
    };
    size_t best = 0;
    for (size_t i = 1; i < live.size(); ++i) {
      if (by_others(i) > by_others(best)) best = i;
    }
    sum += live[best][judge] - live[chosen][judge];
  }
  return repeats == 0 ? 0 : sum / static_cast<double>(repeats);
}

Interval Bootstrap(size_t n,
                   const std::function<double(std::span<const size_t> items)>& statistic) {
  Rng rng(1234);
  std::vector<double> values;
  std::vector<size_t> items(n);
  for (int draw = 0; draw < kDraws && n > 0; ++draw) {
    for (size_t& item : items) item = rng.Below(n);
    if (const double value = statistic(items); std::isfinite(value)) values.push_back(value);
  }
  return {.low = Quantile(values, 0.025), .high = Quantile(values, 0.975)};
}

}  // namespace ebb::fidelity_bench
