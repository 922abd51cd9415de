// The statistics by which a twin is judged. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ebb::fidelity_bench {

// Mean; NaN when there is none.
double Mean(std::span<const double> values);
// The value at quantile q of the sorted values, interpolated; NaN when there is none.
double Quantile(std::span<const double> values, double q);

// Spearman's rank correlation; equal values share their mean rank. 0 when one side does not vary.
double Spearman(std::span<const double> a, std::span<const double> b);

// Standard deviation of one measurement, pooled over groups of repeats; 0 when nothing was
// repeated. `freedom`: the degrees it rests on.
struct Noise {
  double sd = 0;
  size_t freedom = 0;
};
Noise PooledNoise(std::span<const std::vector<double>> groups);

// The smallest difference between the means of `n` and `m` measurements that is found significant
// (5 %, two sides) in four of five tries.
double SmallestDetectableEffect(const Noise& noise, size_t n, size_t m);

// Of the effects that are larger than what can be detected: how many have the predicted sign.
struct SignAgreement {
  size_t judged = 0;
  size_t agree = 0;
  double share() const {
    return judged == 0 ? 1 : static_cast<double>(agree) / static_cast<double>(judged);
  }
  SignAgreement& operator+=(const SignAgreement& other) {
    judged += other.judged;
    agree += other.agree;
    return *this;
  }
};
SignAgreement CompareSigns(std::span<const double> live, std::span<const double> twin,
                           double smallest_detectable);

// What choosing the twin's best candidate costs: live value of the best candidate less that of the
// twin's choice. `live[i]` are repeats of candidate i. The best is chosen by the other repeats than
// the one that judges it, so that noise does not make it look better than it is.
double Regret(std::span<const std::vector<double>> live, std::span<const double> twin);

// 95 % interval of a statistic of n items by drawing them anew, with a fixed seed.
struct Interval {
  double low = 0;
  double high = 0;
};
Interval Bootstrap(size_t n, const std::function<double(std::span<const size_t> items)>& statistic);

}  // namespace ebb::fidelity_bench
