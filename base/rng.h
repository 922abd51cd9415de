// Rng: seeded random numbers, the same on every machine and library version.
//
// xoshiro256** (Blackman, Vigna 2018) seeded by splitmix64. The std:: distributions differ between
// library versions, so the few we need are here. Not thread-safe; not for secrets.
#pragma once

#include <array>
#include <cstdint>

namespace ebb {

class Rng {
 public:
  explicit Rng(uint64_t seed);

  uint64_t Next();
  // Uniform in [0, bound); bound > 0. Unbiased (Lemire 2019).
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1).
  double Uniform();
  // Standard normal (polar method).
  double Normal();
  bool Chance(double probability) { return Uniform() < probability; }
  // An independent generator derived from this one: give each part of a run its own.
  Rng Fork() { return Rng(Next()); }

 private:
  std::array<uint64_t, 4> state_;
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

}  // namespace ebb
