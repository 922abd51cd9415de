// The landscape as text and as CSV.
#pragma once

#include <string>

#include "experiments/landscape_bench/landscape.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::landscape_bench {

std::string LandscapeText(const Landscape& landscape);

// One line a cell and goal.
std::string CellsCsv(const Landscape& landscape);
// One line a knob, cell and goal: shares of variance.
std::string KnobsCsv(const Landscape& landscape);
// One line for each pair of families of a class and each goal.
std::string RegretsCsv(const Landscape& landscape);

// The bench's figures and the series they are of.
const std::vector<storage_bench::FigureSpec>& LandscapeFigures();
storage_bench::Samples LandscapeSamples(const Landscape& landscape);

}  // namespace ebb::landscape_bench
