// The bars of the twin bench, as data.
#pragma once

#include <vector>

#include "experiments/storage_bench/figures.h"

namespace ebb::twin_bench {

const std::vector<storage_bench::FigureSpec>& TwinFigures();

}  // namespace ebb::twin_bench
