// MapEntry says where one block of the volume is stored, in 12 bytes.
//
// Two kinds. A *direct* entry holds the place itself: device and offset of 4 KiB that belong to
// this block alone; nothing else has to be looked up or counted. A *unit* entry refers to a block
// of a unit, whose record (kUnits) says where it is: for what is compressed with others or shared.
#pragma once

#include <cstdint>

#include "storage-backend/capacity/layout.h"

namespace ebb::storage {

// One stored block: position `index` in unit `unit`. Unit numbers start at 1 and are never reused.
struct BlockRef {
  uint64_t unit = 0;
  uint8_t index = 0;
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

class MapEntry {
 public:
  static constexpr uint64_t kNumberLimit = uint64_t{1} << 48;  // units; blocks of a device

  MapEntry() = default;  // not mapped
  static MapEntry Unit(const BlockRef& ref, uint32_t crc32c) {
    return {kUnitKind << kKindShift | uint64_t{ref.index} << kSideShift | ref.unit, crc32c};
  }
  static MapEntry Direct(uint8_t device, uint64_t device_offset, uint32_t crc32c) {
    return {kDirectKind << kKindShift | uint64_t{device} << kSideShift |
                device_offset / kCapacityBlockBytes,
            crc32c};
  }
  // From its stored form; `valid` becomes false when there is no such entry.
  static MapEntry FromStored(uint64_t place, uint32_t crc32c, bool& valid) {
    const uint64_t kind = place >> kKindShift;
    const uint64_t side = place >> kSideShift & kSideMask;
    if (kind == 0) {
      valid &= place == 0 && crc32c == 0;
    } else if (kind == kUnitKind) {
      valid &= side < kUnitBlocksMax && (place & kNumberMask) != 0;
    } else {
      valid &= kind == kDirectKind && side <= UINT8_MAX;
    }
    return {place, crc32c};
  }

  bool mapped() const { return high_ != 0 || low_ != 0; }
  bool is_unit() const { return place() >> kKindShift == kUnitKind; }
  bool is_direct() const { return place() >> kKindShift == kDirectKind; }
  // Of a unit entry.
  BlockRef ref() const { return {place() & kNumberMask, side()}; }
  // Of a direct entry.
  uint8_t device() const { return side(); }
  uint64_t device_offset() const { return (place() & kNumberMask) * kCapacityBlockBytes; }
  // Of the block's 4096 bytes.
  uint32_t crc32c() const { return crc32c_; }
  // What is stored: bits 62 and 63 the kind, 48 to 61 index or device, 0 to 47 unit or 4 KiB block.
  uint64_t place() const { return uint64_t{high_} << 32 | low_; }

  friend bool operator==(const MapEntry&, const MapEntry&) = default;

 private:
  static constexpr int kKindShift = 62;
  static constexpr int kSideShift = 48;
  static constexpr uint64_t kSideMask = 0x3fff;
  static constexpr uint64_t kNumberMask = kNumberLimit - 1;
  static constexpr uint64_t kUnitKind = 1;
  static constexpr uint64_t kDirectKind = 2;

  MapEntry(uint64_t place, uint32_t crc32c)
      : low_(static_cast<uint32_t>(place)),
        high_(static_cast<uint32_t>(place >> 32)),
        crc32c_(crc32c) {}
  uint8_t side() const { return static_cast<uint8_t>(place() >> kSideShift & kSideMask); }

  // Halves, so that an entry takes 12 bytes and not 16.
  uint32_t low_ = 0;
  uint32_t high_ = 0;
  uint32_t crc32c_ = 0;
};
static_assert(sizeof(MapEntry) == 12);

// A block is `entry` from now on.
struct MapChange {
  uint64_t block = 0;
  MapEntry entry;
  friend bool operator==(const MapChange&, const MapChange&) = default;
};

}  // namespace ebb::storage
