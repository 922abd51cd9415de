#include "env/trace/zipf.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ebb::env {
namespace {

// (exp(x) - 1) / x and log(1 + x) / x, also near 0.
double ExpRatio(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }
double LogRatio(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

}  // namespace

Zipf::Zipf(uint64_t count, double skew) : count_(count), skew_(skew) {
  EBB_CHECK(count > 0 && skew >= 0);
  integral_begin_ = Integral(1.5) - 1;
  integral_end_ = Integral(static_cast<double>(count) + 0.5);
  shortcut_ = 2 - IntegralInverse(Integral(2.5) - Density(2));
}

// The integral of x^-skew from 1.
double Zipf::Integral(double x) const {
  const double log_x = std::log(x);
  return ExpRatio((1 - skew_) * log_x) * log_x;
}

double Zipf::IntegralInverse(double y) const {
  const double t = std::max(y * (1 - skew_), -1.0);
  return std::exp(LogRatio(t) * y);
}

double Zipf::Density(double x) const { return std::exp(-skew_ * std::log(x)); }

uint64_t Zipf::Draw(Rng& rng) const {
  if (skew_ == 0 || count_ == 1) return rng.Below(count_);
  for (;;) {
    const double y = integral_end_ + rng.Uniform() * (integral_begin_ - integral_end_);
    const double x = IntegralInverse(y);
    const double rank = std::clamp(std::round(x), 1.0, static_cast<double>(count_));
    if (rank - x <= shortcut_ || y >= Integral(rank + 0.5) - Density(rank)) {
      return static_cast<uint64_t>(rank) - 1;
    }
  }
}

}  // namespace ebb::env
