#include "storage-backend/capacity/unit_packer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::storage {
namespace {

uint64_t WholeBlocks(uint64_t bytes) {
  return (bytes + kCapacityBlockBytes - 1) / kCapacityBlockBytes * kCapacityBlockBytes;
}

}  // namespace

UnitPacker::UnitPacker(const CapacityLayout& layout, SegmentTable& segments, ExtentWriter& writer,
                       MapTransaction& transaction, PackerOptions options)
    : layout_(layout),
      segments_(segments),
      writer_(writer),
      transaction_(transaction),
      options_(std::move(options)) {}

absl::Status UnitPacker::OpenExtent(uint64_t bytes_min) {
  place_ = segments_.NextExtent(options_.stream, bytes_min, transaction_.next_sequence());
  if (!place_.has_value()) {
    return absl::ResourceExhaustedError("capacity: the devices are full of live data");
  }
  EBB_ASSIGN_OR_RETURN(const std::span<std::byte> buffer, writer_.Buffer(options_.parallelism));
  builder_.emplace(buffer,
                   std::min(place_->limit_bytes, std::max(options_.extent_bytes, bytes_min)));
  return absl::OkStatus();
}

absl::Status UnitPacker::CloseExtent() {
  const uint64_t offset = layout_.SegmentOffset(place_->id.segment) + place_->offset_in_segment;
  ExtentHeader header;
  header.node_uuid = options_.node_uuid;
  header.segment_sequence = place_->sequence;
  header.device_offset = offset;
  header.device = place_->id.device;
  const ExtentBuilder::Finished extent = builder_->Finish(header);
  ExtentContent content;
  content.units.reserve(extent.header.units.size());
  content.blocks.reserve(extent.header.blocks.size());
  for (const ExtentUnit& unit : extent.header.units) {
    transaction_.PlaceUnit(unit.unit, place_->id, offset + unit.offset, unit.stored_bytes,
                           unit.stored_mask, unit.codec);
    content.units.push_back(unit.unit);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ExtentBlock& block = extent.header.blocks[i];
    *entries_[i] = MapEntry::Direct(place_->id.device, offset + block.offset, block.crc32c);
    content.blocks.push_back(block.block);
  }
  entries_.clear();
  segments_.Use(*place_, extent.bytes.size());
  transaction_.AddExtent(*place_, std::move(content));
  written_bytes_ += extent.bytes.size();
  writer_.Write(place_->id.device, offset, extent.bytes);
  builder_.reset();
  place_.reset();
  if (options_.keep_going && !options_.keep_going()) {
    return absl::CancelledError("capacity: the batch was abandoned on request");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> UnitPacker::RawRoom(uint32_t wanted) {
  if (builder_.has_value() && builder_->RawBlocksThatFit() == 0) {
    EBB_RETURN_IF_ERROR(CloseExtent());
  }
  if (!builder_.has_value()) EBB_RETURN_IF_ERROR(OpenExtent(2 * kCapacityBlockBytes));
  return std::min(wanted, builder_->RawBlocksThatFit());
}

absl::StatusOr<std::span<std::byte>> UnitPacker::Add(const ExtentUnit& unit) {
  const bool raw = unit.codec == Compression::kOff;
  if (builder_.has_value() && !builder_->Fits(unit.stored_bytes, raw)) {
    EBB_RETURN_IF_ERROR(CloseExtent());
  }
  if (!builder_.has_value()) {
    EBB_RETURN_IF_ERROR(OpenExtent(kCapacityBlockBytes + WholeBlocks(unit.stored_bytes)));
  }
  return builder_->Add(unit);
}

absl::StatusOr<std::span<std::byte>> UnitPacker::AddBlock(uint64_t block, uint32_t crc32c,
                                                          MapEntry* entry) {
  if (builder_.has_value() && !builder_->FitsBlock()) EBB_RETURN_IF_ERROR(CloseExtent());
  if (!builder_.has_value()) EBB_RETURN_IF_ERROR(OpenExtent(2 * kCapacityBlockBytes));
  entries_.push_back(entry);
  return builder_->AddBlock(block, crc32c);
}

absl::Status UnitPacker::SubmitRest() {
  return builder_.has_value() ? CloseExtent() : absl::OkStatus();
}

absl::Status UnitPacker::Finish() {
  EBB_RETURN_IF_ERROR(SubmitRest());
  return writer_.Finish();
}

}  // namespace ebb::storage
