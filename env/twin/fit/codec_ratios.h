// What codecs make of given data, against each other.
#pragma once

#include <cstddef>
#include <span>

#include "env/twin/node_model.h"

namespace ebb::twin {

// `data` as blocks of 4 KiB, whole units of 32 KiB of it; at least one. Units that LZ4 does not
// shrink say nothing; when none shrinks the result is what NodeModel begins with.
CodecRatios MeasureCodecRatios(std::span<const std::byte> data);

}  // namespace ebb::twin
