#include "env/twin/sobol.h"

#include <array>
#include <bit>

#include "base/check.h"
#include "base/rng.h"

namespace ebb::twin {
namespace {

// A primitive polynomial: its degree, its inner coefficients, and the first direction numbers.
struct Polynomial {
  int degree;
  uint32_t coefficients;
  std::array<uint32_t, 6> numbers;
};

// Of dimensions 2 to 18; the first is van der Corput's sequence.
constexpr std::array<Polynomial, Sobol::kDimensionsMax - 1> kPolynomials = {{
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
}};

}  // namespace

Sobol::Sobol(size_t dimensions, uint64_t seed) {
  EBB_CHECK(dimensions > 0 && dimensions <= kDimensionsMax);
  Rng rng(seed);
  for (size_t d = 0; d < dimensions; ++d) {
    std::vector<uint32_t> numbers(kBits);
    if (d == 0) {
      for (int i = 0; i < kBits; ++i) numbers[static_cast<size_t>(i)] = 1U << (kBits - 1 - i);
    } else {
      const Polynomial& polynomial = kPolynomials[d - 1];
      const auto degree = static_cast<size_t>(polynomial.degree);
      for (size_t i = 0; i < kBits; ++i) {
        if (i < degree) {
          numbers[i] = polynomial.numbers[i] << (kBits - 1 - i);
          continue;
        }
        numbers[i] = numbers[i - degree] ^ (numbers[i - degree] >> degree);
        for (size_t k = 1; k < degree; ++k) {
          if ((polynomial.coefficients >> (degree - 1 - k) & 1) != 0) numbers[i] ^= numbers[i - k];
        }
      }
    }
    directions_.push_back(std::move(numbers));
    shift_.push_back(seed == 0 ? 0 : static_cast<uint32_t>(rng.Next() >> 32));
  }
  state_.assign(dimensions, 0);
}

std::vector<double> Sobol::Next() {
  std::vector<double> point(state_.size());
  for (size_t d = 0; d < state_.size(); ++d) {
    point[d] = static_cast<double>(state_[d] ^ shift_[d]) * 0x1p-32;
  }
  // Gray code: one number changes each step.
  const auto bit = static_cast<size_t>(std::countr_one(index_++));
  for (size_t d = 0; d < state_.size(); ++d) state_[d] ^= directions_[d][bit];
  return point;
}

}  // namespace ebb::twin
