// The bars of the history bench, as data.
#pragma once

#include <vector>

#include "experiments/storage_bench/figures.h"

namespace ebb::history_bench {

const std::vector<storage_bench::FigureSpec>& HistoryFigures();

}  // namespace ebb::history_bench
