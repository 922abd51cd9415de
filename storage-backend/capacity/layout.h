// CapacityLayout: where segments and extents lie on a capacity device, and what of it is usable.
//
//   0          64 KiB                                                  size - 4 KiB
//   | superblock, room | segment 0 | segment 1 | ... | segment n-1 | rest | superblock copy |
//
// A segment is a run of extents; an extent is a header of whole 4 KiB blocks and its payload. The
// exact bytes: docs/formats.md, "Capacity device".
#pragma once

#include <cstdint>
#include <span>

namespace ebb::storage {

inline constexpr uint64_t kCapacityBlockBytes = 4096;
inline constexpr uint64_t kSegmentAreaStart = 64 << 10;
// Both superblock copies of one device.
inline constexpr uint64_t kSuperblocksBytes = 2 * kCapacityBlockBytes;
// An extent, its header included; less in small segments.
inline constexpr uint64_t kExtentBytesMax = 1 << 20;
inline constexpr uint32_t kUnitBlocksMax = 32;
// What a unit takes in an extent's header.
inline constexpr uint64_t kUnitEntryBytes = 28;
// What a block stored on its own takes there, and what it counts for in all.
inline constexpr uint64_t kDirectEntryBytes = 12;
inline constexpr uint64_t kDirectLiveBytes = kCapacityBlockBytes + kDirectEntryBytes;
inline constexpr uint64_t kExtentHeaderFixedBytes = 72;

// The segment size for a capacity device of `device_bytes`: 256 KiB to 4 MiB. Devices of one node
// share the size of the smallest.
uint64_t CapacitySegmentBytes(uint64_t device_bytes);

struct CapacityLayout {
  uint64_t segment_bytes = 0;

  uint32_t SegmentCount(uint64_t device_bytes) const;
  uint64_t SegmentOffset(uint32_t segment) const {
    return kSegmentAreaStart + segment * segment_bytes;
  }
  uint32_t SegmentOf(uint64_t offset) const {
    return static_cast<uint32_t>((offset - kSegmentAreaStart) / segment_bytes);
  }
  uint64_t ExtentBytesMax() const {
    return segment_bytes < kExtentBytesMax ? segment_bytes : kExtentBytesMax;
  }
  // Blocks compressed together at most: units stay small against segments, because they do not
  // cross from one to the next.
  uint32_t UnitBlocksMax() const;
  // Live bytes (payload and header entries) that a segment written by compaction holds at least.
  uint64_t SegmentFillBytes() const;
  // Segments never promised to callers: open ones, room to compact into, slack that keeps
  // compaction cheap.
  static uint64_t ReservedSegments(uint64_t segments, uint64_t devices);
};

// Free segments that only compaction may take, so that it can always make room.
inline constexpr uint64_t kCompactionSegments = 1;

}  // namespace ebb::storage
