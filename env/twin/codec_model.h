// What a codec makes of data, from how well LZ4 packs it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "env/twin/node_model.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::twin {

// Stored bytes of a unit of `raw_bytes` whose blocks LZ4 packs to `per_mille` in units of 32 KiB; 0
// when it is stored raw.
inline uint32_t StoredBytes(const CodecRatios& ratios, storage::Compression codec,
                            uint32_t raw_bytes, double per_mille) {
  if (codec == storage::Compression::kOff || per_mille >= 950) return 0;
  const double halvings = std::log2(32'768.0 / raw_bytes);
  const double share = per_mille / 1000 * ratios.size_against_lz4[static_cast<size_t>(codec)] *
                       (1 + ratios.size_per_halving * halvings);
  const auto stored = static_cast<uint32_t>(share * raw_bytes);
  const uint32_t grain = storage::kStoredUnitBytes;
  const uint32_t padded = std::max((stored + grain - 1) / grain * grain, grain);
  return padded > storage::MaxStoredBytes(raw_bytes) ? 0 : padded;
}

}  // namespace ebb::twin
