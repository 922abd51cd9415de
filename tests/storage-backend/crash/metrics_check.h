// What the numbers of a volume must satisfy at every moment, whatever it is doing.
#pragma once

#include <string>

#include "storage-backend/volume/volume.h"

namespace ebb::storage {

// The first contradiction within a snapshot, in words; empty: none.
std::string MetricsFault(const VolumeMetrics& metrics);
// The first counter that ran backwards from `before` to `after`.
std::string MetricsFault(const VolumeMetrics& before, const VolumeMetrics& after);

}  // namespace ebb::storage
