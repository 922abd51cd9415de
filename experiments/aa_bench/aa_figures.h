// What the A/A study is judged by.
#pragma once

#include <vector>

#include "experiments/aa_bench/aa_study.h"
#include "experiments/storage_bench/figures.h"

namespace ebb::aa_bench {

const std::vector<storage_bench::FigureSpec>& AaFigures();

// The study's samples, one of each series. A study without a trial or an index adds nothing about
// them, so that its figures do not hold.
void AddSamples(const AaResult& result, storage_bench::Samples& samples);

}  // namespace ebb::aa_bench
