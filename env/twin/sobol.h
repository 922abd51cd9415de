// Sobol points: evenly spread settings, the same for the same seed.
//
// Direction numbers of Joe and Kuo (2008) for 18 dimensions, shifted digitally by the seed, so that
// each seed is another set of the same evenness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::twin {

class Sobol {
 public:
  static constexpr size_t kDimensionsMax = 18;

  Sobol(size_t dimensions, uint64_t seed);

  // The next point, each coordinate in [0, 1).
  std::vector<double> Next();

 private:
  static constexpr int kBits = 32;

  std::vector<std::vector<uint32_t>> directions_;
  std::vector<uint32_t> shift_;
  std::vector<uint32_t> state_;
  uint64_t index_ = 0;
};

}  // namespace ebb::twin
