// SegmentSpace: the segments of the capacity devices, how full they are and how much of them lives.
//
// As storage-backend/capacity/segment_table.h, with its layout: extents go to the devices in turns
// weighted by their free segments, each stream (store, compaction) into a segment of its own; a
// sealed segment in which nothing lives is free again. A part of the first segments may be static:
// blocks of the volume that the load never touches.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "storage-backend/capacity/layout.h"
#include "storage-backend/policy/compaction_choice.h"

namespace ebb::twin {

enum class Stream : uint8_t { kStore, kCompaction };

class SegmentSpace {
 public:
  struct Segment {
    uint32_t written_bytes = 0;
    uint32_t live_bytes = 0;    // expected ones: a compressed unit shrinks with its live share
    uint32_t static_bytes = 0;  // of the live ones
    uint32_t live_owners = 0;   // units and direct blocks that live here, and static ones as one
    bool used = false;
    bool sealed = false;
    // What was written here: see CapacityModel.
    std::vector<uint32_t> owners;
  };
  struct Place {
    uint32_t segment = 0;  // over all devices
    uint64_t offset = 0;   // over all devices: device * device_bytes() + offset there
    uint64_t limit_bytes = 0;
  };

  SegmentSpace(uint64_t device_bytes, int device_count);

  std::optional<Place> NextExtent(Stream stream, uint64_t bytes_min);
  void Use(uint32_t segment, uint64_t bytes) {
    At(segment).written_bytes += static_cast<uint32_t>(bytes);
    written_bytes_ += bytes;
  }
  void AddLive(uint32_t segment, uint64_t bytes);
  void AddStatic(uint32_t segment, uint64_t bytes);
  // Live bytes change; `gone`: one owner lives here no more.
  void Drop(uint32_t segment, uint64_t bytes, bool gone);
  // Static bytes were moved away.
  void DropStatic(uint32_t segment);

  Segment& At(uint32_t segment) { return segments_[segment]; }
  uint32_t SegmentAt(uint64_t offset) const {
    const uint64_t device = offset / device_bytes_;
    return static_cast<uint32_t>(device * per_device_ +
                                 layout_.SegmentOf(offset - device * device_bytes_));
  }
  uint32_t DeviceOf(uint32_t segment) const { return segment / per_device_; }

  // What compaction may choose from, as the node asks its policy.
  std::vector<size_t> ChooseCompaction(bool urgent,
                                       std::vector<storage::CompactionCandidate>& candidates) const;
  uint32_t GlobalSegment(const storage::CompactionCandidate& candidate) const {
    return candidate.device * per_device_ + candidate.segment;
  }
  // Whether a batch of so many blocks fits without compaction.
  bool HasRoomFor(uint64_t blocks) const;
  // What can still be stored, worst case.
  uint64_t FreeBytes() const;
  uint64_t written_bytes() const { return written_bytes_; }
  uint64_t device_bytes() const { return device_bytes_; }
  const storage::CapacityLayout& layout() const { return layout_; }
  uint64_t total_segments() const { return segments_.size(); }
  uint64_t free_segments() const { return free_segments_; }

 private:
  struct Device {
    std::array<std::optional<uint32_t>, 2> open;  // by stream, a segment over all devices
    uint64_t free = 0;
    uint32_t cursor = 0;
    double credit = 0;
  };

  bool HasRoom(const Device& device, Stream stream, uint64_t bytes_min) const;
  std::optional<size_t> NextDevice(Stream stream, uint64_t bytes_min);
  void FreeIfDead(uint32_t segment);
  uint64_t ReservedSegments() const {
    return storage::CapacityLayout::ReservedSegments(segments_.size(), devices_.size());
  }

  storage::CapacityLayout layout_;
  uint64_t device_bytes_;
  uint32_t per_device_;
  std::vector<Segment> segments_;
  std::vector<Device> devices_;
  uint64_t free_segments_;
  uint64_t written_bytes_ = 0;
  uint64_t live_bytes_ = 0;
};

}  // namespace ebb::twin
