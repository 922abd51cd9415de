// The picture of a sweep: how the index follows each knob, as SVG.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "env/knob_space.h"

namespace ebb::cli {

struct SweepPoint {
  env::Setting setting;
  double index = 100;  // 100 = the base setting
};

// A panel for each knob that moved: every setting a dot, and the median of an eighth of the range a
// line. A flat line is a knob that does not matter on its own.
std::string SweepPicture(const env::KnobSpace& space, std::span<const SweepPoint> points,
                         const std::string& title);

}  // namespace ebb::cli
