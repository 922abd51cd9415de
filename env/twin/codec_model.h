// What a codec makes of data, from how well LZ4 packs it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "storage-backend/knobs/knobs.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::twin {

// Stored bytes of a unit of `raw_bytes` whose blocks LZ4 packs to `per_mille` in units of 32 KiB; 0
// when it is stored raw. Ratios between the codecs and unit sizes: medians over binaries and text
// (ADR 0008).
inline uint32_t StoredBytes(storage::Compression codec, uint32_t raw_bytes, double per_mille) {
  if (codec == storage::Compression::kOff || per_mille >= 950) return 0;
  constexpr double kAgainstLz4[] = {1, 1, 0.77, 0.74};
  constexpr double kPerHalving = 0.04;  // a unit of half the size packs so much worse
  const double halvings = std::log2(32'768.0 / raw_bytes);
  const double share =
      per_mille / 1000 * kAgainstLz4[static_cast<size_t>(codec)] * (1 + kPerHalving * halvings);
  const auto stored = static_cast<uint32_t>(share * raw_bytes);
  const uint32_t grain = storage::kStoredUnitBytes;
  const uint32_t padded = std::max((stored + grain - 1) / grain * grain, grain);
  return padded > storage::MaxStoredBytes(raw_bytes) ? 0 : padded;
}

}  // namespace ebb::twin
