#include "storage-backend/capacity/segment_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "storage-backend/policy/weighted_turn.h"

namespace ebb::storage {
namespace {

SegmentState OpenStateOf(Stream stream) {
  return stream == Stream::kStore ? SegmentState::kOpenStore : SegmentState::kOpenCompaction;
}

}  // namespace

SegmentTable::SegmentTable(const CapacityLayout& layout, const std::vector<uint64_t>& device_bytes)
    : layout_(layout), devices_(device_bytes.size()), undo_open_(device_bytes.size()) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i].segments.resize(layout_.SegmentCount(device_bytes[i]));
    devices_[i].free = devices_[i].segments.size();
    total_segments_ += devices_[i].free;
  }
  free_segments_ = total_segments_;
}

absl::Status SegmentTable::Load(SegmentId id, const SegmentRecord& record, uint64_t dirty_since) {
  if (id.device >= devices_.size() || id.segment >= devices_[id.device].segments.size() ||
      record.written_bytes > layout_.segment_bytes) {
    return absl::DataLossError(absl::StrCat("metadata: segment ", id.segment, " of device ",
                                            static_cast<int>(id.device), " does not exist"));
  }
  if (dirty_since != 0) {
    At(id).dirty_since = dirty_since;
    dirty_.push_back(id);
  }
  if (record.state == SegmentState::kFree) return absl::OkStatus();
  for (const Stream stream : {Stream::kStore, Stream::kCompaction}) {
    if (record.state != OpenStateOf(stream)) continue;
    std::optional<uint32_t>& open = devices_[id.device].open[static_cast<size_t>(stream)];
    if (open.has_value()) {
      return absl::DataLossError(absl::StrCat("metadata: segments ", *open, " and ", id.segment,
                                              " of device ", static_cast<int>(id.device),
                                              " are both open"));
    }
    open = id.segment;
  }
  At(id).record = record;
  --devices_[id.device].free;
  --free_segments_;
  written_bytes_ += record.written_bytes;
  live_bytes_ += record.live_bytes;
  return absl::OkStatus();
}

SegmentTable::Segment& SegmentTable::Edit(SegmentId id) {
  if (undo_.empty()) {
    for (size_t i = 0; i < devices_.size(); ++i) undo_open_[i] = devices_[i].open;
  }
  Segment& segment = At(id);
  if (!segment.edited) {
    undo_.emplace_back(id, segment);
    segment.edited = true;
  }
  return segment;
}

bool SegmentTable::HasRoom(const DeviceSegments& device, Stream stream, uint64_t bytes_min) const {
  const uint64_t kept = stream == Stream::kStore ? kCompactionSegments : 0;
  if (device.free > 0 && free_segments_ > kept) return true;
  const std::optional<uint32_t> open = device.open[static_cast<size_t>(stream)];
  return open.has_value() &&
         device.segments[*open].record.written_bytes + bytes_min <= layout_.segment_bytes;
}

std::optional<size_t> SegmentTable::NextDevice(Stream stream, uint64_t bytes_min) {
  return NextInTurn(
      devices_, [&](const DeviceSegments& device) { return HasRoom(device, stream, bytes_min); });
}

uint32_t SegmentTable::OpenSegment(size_t device_index, Stream stream, uint64_t sequence) {
  DeviceSegments& device = devices_[device_index];
  const auto count = static_cast<uint32_t>(device.segments.size());
  uint32_t found = device.cursor % count;
  while (device.segments[found].record.state != SegmentState::kFree ||
         !device.segments[found].released) {
    found = (found + 1) % count;
  }
  device.cursor = found + 1;
  Segment& segment = Edit({static_cast<uint8_t>(device_index), found});
  segment.record = {.state = OpenStateOf(stream), .sequence = sequence};
  device.open[static_cast<size_t>(stream)] = found;
  --device.free;
  --free_segments_;
  return found;
}

void SegmentTable::Seal(size_t device_index, Stream stream) {
  std::optional<uint32_t>& open = devices_[device_index].open[static_cast<size_t>(stream)];
  Edit({static_cast<uint8_t>(device_index), *open}).record.state = SegmentState::kSealed;
  open.reset();
}

std::optional<ExtentPlace> SegmentTable::NextExtent(Stream stream, uint64_t bytes_min,
                                                    uint64_t* next_sequence) {
  const std::optional<size_t> device_index = NextDevice(stream, bytes_min);
  if (!device_index.has_value()) return std::nullopt;
  DeviceSegments& device = devices_[*device_index];
  const std::optional<uint32_t>& open = device.open[static_cast<size_t>(stream)];
  if (open.has_value() &&
      device.segments[*open].record.written_bytes + bytes_min > layout_.segment_bytes) {
    Seal(*device_index, stream);
  }
  if (!open.has_value()) OpenSegment(*device_index, stream, (*next_sequence)++);
  const SegmentRecord& record = device.segments[*open].record;
  return ExtentPlace{.id = {static_cast<uint8_t>(*device_index), *open},
                     .sequence = record.sequence,
                     .offset_in_segment = record.written_bytes,
                     .limit_bytes = std::min(layout_.ExtentBytesMax(),
                                             layout_.segment_bytes - record.written_bytes)};
}

void SegmentTable::Use(const ExtentPlace& place, uint64_t bytes) {
  Segment& segment = Edit(place.id);
  EBB_CHECK(segment.record.written_bytes == place.offset_in_segment);
  segment.record.written_bytes += static_cast<uint32_t>(bytes);
  EBB_CHECK(segment.record.written_bytes <= layout_.segment_bytes);
  written_bytes_ += bytes;
}

void SegmentTable::AddLive(SegmentId id, int64_t live_bytes, int64_t expected_bytes) {
  SegmentRecord& record = Edit(id).record;
  const int64_t live = static_cast<int64_t>(record.live_bytes) + live_bytes;
  const int64_t expected = static_cast<int64_t>(record.expected_bytes) + expected_bytes;
  EBB_CHECK(live >= 0 && live <= static_cast<int64_t>(record.written_bytes));
  EBB_CHECK(expected >= 0 && expected <= live);
  record.live_bytes = static_cast<uint32_t>(live);
  record.expected_bytes = static_cast<uint32_t>(expected);
  live_bytes_ = static_cast<uint64_t>(static_cast<int64_t>(live_bytes_) + live_bytes);
}

std::vector<SegmentId> SegmentTable::Finish(std::vector<SegmentChange>& changes) {
  std::vector<SegmentId> freed;
  changes.reserve(undo_.size());
  for (auto& [id, before] : undo_) {
    Segment& segment = At(id);
    if (segment.record.state == SegmentState::kSealed && segment.record.live_bytes == 0) {
      segment.unreleased_bytes = segment.record.written_bytes;
      segment.record = SegmentRecord();
      segment.released = false;
      freed.push_back(id);
    }
    if (segment.record != before.record) changes.push_back({id, segment.record});
  }
  std::sort(freed.begin(), freed.end());
  return freed;
}

void SegmentTable::Commit(uint64_t sequence) {
  for (const auto& [id, before] : undo_) {
    Segment& segment = At(id);
    segment.edited = false;
    if (segment.record == before.record || segment.dirty_since != 0) continue;
    segment.dirty_since = sequence;
    dirty_.push_back(id);
  }
  undo_.clear();
}

uint64_t SegmentTable::oldest_dirty() const {
  return writing_back_ == dirty_.size() ? UINT64_MAX : At(dirty_[writing_back_]).dirty_since;
}

void SegmentTable::WriteBack(uint64_t sequence, MetadataBatch& batch) {
  EBB_CHECK(writing_back_ == 0);
  for (const SegmentId id : dirty_) {
    if (At(id).dirty_since >= sequence) break;
    const SegmentRecord& record = At(id).record;
    if (record.state == SegmentState::kFree) {
      batch.Delete(Table::kSegments, SegmentKey(id));
    } else {
      batch.Put(Table::kSegments, SegmentKey(id), EncodeSegment(id, record));
    }
    ++writing_back_;
  }
}

void SegmentTable::WrittenBack() {
  for (; writing_back_ > 0; --writing_back_) {
    At(dirty_.front()).dirty_since = 0;
    dirty_.pop_front();
  }
}

void SegmentTable::Rollback() {
  if (undo_.empty()) return;
  for (const auto& [id, before] : undo_) {
    Segment& segment = At(id);
    // A freed segment keeps its written bytes as unreleased, so both count.
    written_bytes_ -= segment.record.written_bytes + segment.unreleased_bytes;
    written_bytes_ += before.record.written_bytes + before.unreleased_bytes;
    live_bytes_ -= segment.record.live_bytes;
    live_bytes_ += before.record.live_bytes;
    const auto is_free = [](const Segment& of) {
      return of.record.state == SegmentState::kFree && of.released;
    };
    if (is_free(before) && !is_free(segment)) {
      ++devices_[id.device].free;
      ++free_segments_;
    }
    segment = before;
  }
  for (size_t i = 0; i < devices_.size(); ++i) devices_[i].open = undo_open_[i];
  undo_.clear();
}

bool SegmentTable::IsWritten(uint8_t device, uint64_t offset, uint64_t bytes) const {
  if (device >= devices_.size() || offset < kSegmentAreaStart) return false;
  const SegmentId id = SegmentAt(device, offset);
  return id.segment < devices_[device].segments.size() &&
         At(id).record.state != SegmentState::kFree &&
         offset + bytes <= layout_.SegmentOffset(id.segment) + At(id).record.written_bytes;
}

absl::Status SegmentTable::CheckPlace(uint64_t unit, const UnitRecord& record) const {
  if (IsWritten(record.device, record.offset, record.PaddedBytes())) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("metadata: unit ", unit, " is said to be at offset ", record.offset,
                   " of device ", static_cast<int>(record.device), ", where no segment in use is"));
}

void SegmentTable::Release(SegmentId id) {
  Segment& segment = At(id);
  EBB_CHECK(segment.record.state == SegmentState::kFree && !segment.released);
  written_bytes_ -= segment.unreleased_bytes;
  segment.unreleased_bytes = 0;
  segment.released = true;
  damaged_.erase(id);
  ++devices_[id.device].free;
  ++free_segments_;
}

std::vector<std::pair<uint32_t, uint32_t>> SegmentTable::FreeRuns(uint8_t device) const {
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  const std::vector<Segment>& segments = devices_[device].segments;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (segments[i].record.state != SegmentState::kFree || !segments[i].released) continue;
    if (!runs.empty() && runs.back().first + runs.back().second == i) {
      ++runs.back().second;
    } else {
      runs.emplace_back(i, 1);
    }
  }
  return runs;
}

uint64_t SegmentTable::OpenBytes(Stream stream) const {
  uint64_t bytes = 0;
  for (const DeviceSegments& device : devices_) {
    const std::optional<uint32_t> open = device.open[static_cast<size_t>(stream)];
    if (open.has_value())
      bytes += layout_.segment_bytes - device.segments[*open].record.written_bytes;
  }
  return bytes;
}

}  // namespace ebb::storage
