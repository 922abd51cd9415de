#include "engine/guard/sequential_test.h"

#include <cmath>

namespace ebb::engine {
namespace {

double LogNormalCdf(double z) {
  if (z > -30) return std::log(0.5 * std::erfc(-z / std::sqrt(2.0)));
  return -0.5 * z * z - std::log(-z * std::sqrt(2 * M_PI));
}

}  // namespace

double LogEvidence(double deviate, double spread) {
  const double square = spread * spread;
  const double shrink = square / (1 + square);
  return -0.5 * std::log1p(square) + 0.5 * shrink * deviate * deviate + std::log(2.0) +
         LogNormalCdf(deviate * std::sqrt(shrink));
}

double DeviateForEvidence(double log_threshold, double spread) {
  double low = 0;
  double high = 60;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (LogEvidence(middle, spread) < log_threshold ? low : high) = middle;
  }
  return high;
}

}  // namespace ebb::engine
