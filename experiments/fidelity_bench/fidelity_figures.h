// The figures of ./dev bench fidelity.
#pragma once

#include <vector>

#include "experiments/storage_bench/figures.h"

namespace ebb::fidelity_bench {

const std::vector<storage_bench::FigureSpec>& FidelityFigures();

}  // namespace ebb::fidelity_bench
