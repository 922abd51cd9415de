// Zipf draws ranks from 0 to n - 1 with probability proportional to 1 / (rank + 1)^skew, without a
// table: by rejection-inversion (Hörmann, Derflinger 1996).
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace ebb::env {

class Zipf {
 public:
  // `count` > 0; `skew` from 0 (uniform) up, 1 included.
  Zipf(uint64_t count, double skew);

  uint64_t Draw(Rng& rng) const;

 private:
  double Integral(double x) const;
  double IntegralInverse(double y) const;
  double Density(double x) const;

  const uint64_t count_;
  const double skew_;
  double integral_begin_ = 0;
  double integral_end_ = 0;
  double shortcut_ = 0;
};

}  // namespace ebb::env
