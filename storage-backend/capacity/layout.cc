#include "storage-backend/capacity/layout.h"

#include <algorithm>
#include <bit>

namespace ebb::storage {
namespace {

constexpr uint64_t kSegmentBytesMin = 256 << 10;
constexpr uint64_t kSegmentBytesMax = 4 << 20;
constexpr uint64_t kSegmentsWanted = 64;  // on small devices, so that there is something to choose
constexpr uint64_t kUnitsOfASegmentMin = 16;

}  // namespace

uint64_t CapacitySegmentBytes(uint64_t device_bytes) {
  return std::clamp(std::bit_floor(device_bytes / kSegmentsWanted), kSegmentBytesMin,
                    kSegmentBytesMax);
}

uint32_t CapacityLayout::SegmentCount(uint64_t device_bytes) const {
  constexpr uint64_t kOutside = kSegmentAreaStart + kCapacityBlockBytes;
  if (device_bytes < kOutside) return 0;
  return static_cast<uint32_t>((device_bytes - kOutside) / segment_bytes);
}

uint32_t CapacityLayout::UnitBlocksMax() const {
  const uint64_t blocks = segment_bytes / kUnitsOfASegmentMin / kCapacityBlockBytes;
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, kUnitBlocksMax));
}

uint64_t CapacityLayout::SegmentFillBytes() const {
  const uint64_t unit_bytes = UnitBlocksMax() * kCapacityBlockBytes;
  // Extents end early when the next unit does not fit, and each step of compaction ends one.
  const uint64_t extents = 2 * (segment_bytes / (ExtentBytesMax() - unit_bytes) + 1);
  // Each loses the rest of its last header block and of its last payload block; between raw and
  // compressed units nothing is lost, because raw ones come first.
  const uint64_t lost = extents * (kExtentHeaderFixedBytes + 2 * kCapacityBlockBytes) + unit_bytes;
  return segment_bytes - lost;
}

uint64_t CapacityLayout::ReservedSegments(uint64_t segments, uint64_t devices) {
  constexpr uint64_t kSlackDivisor = 20;
  const uint64_t open = 2 * devices;
  return kCompactionSegments + open + std::max<uint64_t>(1, segments / kSlackDivisor);
}

}  // namespace ebb::storage
