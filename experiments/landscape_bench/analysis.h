// What the landscape's measurements say: pure functions over gains.
//
// A gain is a natural logarithm of the performance index over that of the default setting: 0 is the
// default, ln(1.03) three percent better.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "env/knob_space.h"

namespace ebb::landscape_bench {

// No measurement: the goal has no traffic here, or the run failed.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Below this a gain is nothing.
inline constexpr double kGainMin = 0.03;

double Percent(double gain);  // exp(gain) - 1, in percent

// Positions of the `count` largest gains, largest first; without those that are kNone.
std::vector<size_t> Largest(std::span<const double> gains, size_t count);

// Gains by cell and setting.
using GainTable = std::vector<std::vector<double>>;

// Of each setting the mean over the cells, cells without gains left out. kNone when it failed in a
// cell that has any.
std::vector<double> MeanGains(const GainTable& cells);
// Of each setting the worst shortfall to the best of each cell.
std::vector<double> WorstRegrets(const GainTable& cells);

// First-order shares of variance: how much of the variance of `gains` the mean given one knob's
// value explains. Each knob's values are cut into at most `bins` classes of equal counts (a knob
// with fewer values: one class a value), and what classes of this size explain by chance is taken
// off (omega squared of a one-way analysis of variance). What the shares leave of 1 is interaction.
std::vector<double> VarianceShares(const env::KnobSpace& space,
                                   std::span<const env::Setting> settings,
                                   std::span<const double> gains, size_t bins);

}  // namespace ebb::landscape_bench
