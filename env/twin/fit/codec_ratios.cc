#include "env/twin/fit/codec_ratios.h"

#include <algorithm>

#include "base/aligned_buffer.h"
#include "base/units.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::twin {
namespace {

using storage::Compression;

constexpr size_t kUnit = 32 * kKiB;
constexpr size_t kSmallUnit = 8 * kKiB;
constexpr double kHalvings = 2;  // from one to the other

// Bytes of `unit` compressed in pieces; a piece that does not shrink counts whole.
size_t Packed(storage::Compressor& compressor, Compression codec, std::span<const std::byte> unit,
              size_t piece_bytes, std::span<std::byte> out) {
  size_t sum = 0;
  for (size_t at = 0; at < unit.size(); at += piece_bytes) {
    const size_t packed = compressor.Compress(codec, unit.subspan(at, piece_bytes),
                                              out.first(storage::MaxStoredBytes(piece_bytes)));
    sum += packed == 0 ? piece_bytes : packed;
  }
  return sum;
}

}  // namespace

CodecRatios MeasureCodecRatios(std::span<const std::byte> data) {
  storage::Compressor compressor;
  AlignedBuffer out(kUnit);
  double lz4 = 0;
  double lz4_small = 0;
  double zstd[2] = {};
  for (; data.size() >= kUnit; data = data.subspan(kUnit)) {
    const std::span<const std::byte> unit = data.first(kUnit);
    const size_t packed = Packed(compressor, Compression::kLz4, unit, kUnit, out.span());
    if (packed == kUnit) continue;
    lz4 += static_cast<double>(packed);
    lz4_small +=
        static_cast<double>(Packed(compressor, Compression::kLz4, unit, kSmallUnit, out.span()));
    zstd[0] +=
        static_cast<double>(Packed(compressor, Compression::kZstd1, unit, kUnit, out.span()));
    zstd[1] +=
        static_cast<double>(Packed(compressor, Compression::kZstd3, unit, kUnit, out.span()));
  }
  CodecRatios ratios;
  if (lz4 == 0) return ratios;
  ratios.size_against_lz4[2] = zstd[0] / lz4;
  ratios.size_against_lz4[3] = zstd[1] / lz4;
  ratios.size_per_halving = std::max(0.0, (lz4_small / lz4 - 1) / kHalvings);
  return ratios;
}

}  // namespace ebb::twin
