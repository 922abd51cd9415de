#include "env/twin/segment_space.h"

#include <algorithm>

#include "base/check.h"
#include "storage-backend/policy/weighted_turn.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kBlockBytes = storage::kCapacityBlockBytes;
constexpr uint64_t kExtentBytesMin = 256 << 10;

}  // namespace

SegmentSpace::SegmentSpace(uint64_t device_bytes, int device_count)
    : layout_{.segment_bytes = storage::CapacitySegmentBytes(device_bytes)},
      device_bytes_(device_bytes / kBlockBytes * kBlockBytes),
      per_device_(layout_.SegmentCount(device_bytes_)),
      segments_(size_t{per_device_} * static_cast<size_t>(device_count)),
      devices_(static_cast<size_t>(device_count)),
      free_segments_(segments_.size()) {
  for (Device& device : devices_) device.free = per_device_;
}

bool SegmentSpace::HasRoom(const Device& device, Stream stream, uint64_t bytes_min) const {
  const uint64_t kept = stream == Stream::kStore ? storage::kCompactionSegments : 0;
  if (device.free > 0 && free_segments_ > kept) return true;
  const std::optional<uint32_t> open = device.open[static_cast<size_t>(stream)];
  return open.has_value() && segments_[*open].written_bytes + bytes_min <= layout_.segment_bytes;
}

std::optional<size_t> SegmentSpace::NextDevice(Stream stream, uint64_t bytes_min) {
  return storage::NextInTurn(
      devices_, [&](const Device& device) { return HasRoom(device, stream, bytes_min); });
}

std::optional<SegmentSpace::Place> SegmentSpace::NextExtent(Stream stream, uint64_t bytes_min) {
  const std::optional<size_t> index = NextDevice(stream, bytes_min);
  if (!index.has_value()) return std::nullopt;
  Device& device = devices_[*index];
  std::optional<uint32_t>& open = device.open[static_cast<size_t>(stream)];
  if (open.has_value() && segments_[*open].written_bytes + bytes_min > layout_.segment_bytes) {
    const uint32_t full = *open;
    segments_[full].sealed = true;
    open.reset();
    FreeIfDead(full);
  }
  if (!open.has_value()) {
    const auto base = static_cast<uint32_t>(*index) * per_device_;
    uint32_t found = device.cursor % per_device_;
    while (segments_[base + found].used) found = (found + 1) % per_device_;
    device.cursor = found + 1;
    open = base + found;
    Segment& segment = segments_[*open];
    segment.used = true;
    segment.sealed = false;
    segment.owners.clear();
    --device.free;
    --free_segments_;
  }
  const uint32_t written = segments_[*open].written_bytes;
  return Place{
      .segment = *open,
      .offset = *index * device_bytes_ + layout_.SegmentOffset(*open % per_device_) + written,
      .limit_bytes = std::min(layout_.ExtentBytesMax(), layout_.segment_bytes - written)};
}

void SegmentSpace::AddLive(uint32_t segment, uint64_t bytes) {
  segments_[segment].live_bytes += static_cast<uint32_t>(bytes);
  ++segments_[segment].live_owners;
  live_bytes_ += bytes;
}

void SegmentSpace::AddStatic(uint32_t segment, uint64_t bytes) {
  Segment& to = segments_[segment];
  if (to.static_bytes == 0) ++to.live_owners;
  to.static_bytes += static_cast<uint32_t>(bytes);
  to.live_bytes += static_cast<uint32_t>(bytes);
  live_bytes_ += bytes;
}

void SegmentSpace::Drop(uint32_t segment, uint64_t bytes, bool gone) {
  Segment& from = segments_[segment];
  EBB_CHECK(from.live_bytes >= bytes);
  from.live_bytes -= static_cast<uint32_t>(bytes);
  live_bytes_ -= bytes;
  if (!gone) return;
  --from.live_owners;
  FreeIfDead(segment);
}

void SegmentSpace::DropStatic(uint32_t segment) {
  const uint64_t bytes = segments_[segment].static_bytes;
  if (bytes == 0) return;
  segments_[segment].static_bytes = 0;
  Drop(segment, bytes, /*gone=*/true);
}

void SegmentSpace::FreeIfDead(uint32_t segment) {
  Segment& dead = segments_[segment];
  if (!dead.sealed || dead.live_owners > 0) return;
  EBB_CHECK(dead.used && dead.live_bytes == 0);
  written_bytes_ -= dead.written_bytes;
  dead.written_bytes = 0;
  dead.used = dead.sealed = false;
  ++devices_[segment / per_device_].free;
  ++free_segments_;
}

std::vector<size_t> SegmentSpace::ChooseCompaction(
    bool urgent, std::vector<storage::CompactionCandidate>& candidates) const {
  candidates.clear();
  for (uint32_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].sealed) continue;
    candidates.push_back({.device = i / per_device_,
                          .segment = i % per_device_,
                          .live_bytes = segments_[i].live_bytes});
  }
  const uint64_t reserved = ReservedSegments();
  return storage::ChooseCompaction(
      {.candidates = candidates,
       .segment_bytes = layout_.segment_bytes,
       .segments_free = free_segments_ > reserved ? free_segments_ - reserved : 0,
       .segments_total = segments_.size() - reserved,
       .step_bytes = std::min(layout_.ExtentBytesMax(), layout_.SegmentFillBytes()),
       .urgent_live_bytes_max = urgent ? layout_.SegmentFillBytes() : 0});
}

bool SegmentSpace::HasRoomFor(uint64_t blocks) const {
  const uint64_t fill = layout_.SegmentFillBytes();
  const uint64_t extents = blocks * kBlockBytes / kExtentBytesMin + 1;
  const uint64_t wanted =
      blocks * (kBlockBytes + storage::kUnitEntryBytes) + extents * 2 * kBlockBytes;
  const uint64_t usable = free_segments_ > storage::kCompactionSegments
                              ? free_segments_ - storage::kCompactionSegments
                              : 0;
  uint64_t open = 0;
  for (const Device& device : devices_) {
    if (const auto segment = device.open[0]; segment.has_value()) {
      open += layout_.segment_bytes - segments_[*segment].written_bytes;
    }
  }
  return usable * fill + open / layout_.segment_bytes * fill >= wanted;
}

uint64_t SegmentSpace::FreeBytes() const {
  const uint64_t reserved = ReservedSegments();
  if (segments_.size() <= reserved) return 0;
  const uint64_t promised = (segments_.size() - reserved) * layout_.SegmentFillBytes();
  if (live_bytes_ >= promised) return 0;
  return (promised - live_bytes_) / (kBlockBytes + storage::kUnitEntryBytes) * kBlockBytes;
}

}  // namespace ebb::twin
