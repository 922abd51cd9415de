// UnitPacker writes units and direct blocks into extents over all devices, for Store and for
// compaction.
//
// It asks the segment table for places, hands full extents to the writer and tells the transaction
// where each unit went, and the caller where each block went. One object a batch, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/capacity/extent.h"
#include "storage-backend/capacity/extent_writer.h"
#include "storage-backend/capacity/map_transaction.h"
#include "storage-backend/capacity/segment_table.h"

namespace ebb::storage {

struct PackerOptions {
  Stream stream = Stream::kStore;
  uint64_t extent_bytes = kExtentBytesMax;  // aim; less at a segment's end
  int parallelism = 1;
  std::array<uint8_t, 16> node_uuid{};
  std::function<bool()> keep_going;  // may be empty; asked at each extent's end
};

class UnitPacker {
 public:
  UnitPacker(const CapacityLayout& layout, SegmentTable& segments, ExtentWriter& writer,
             MapTransaction& transaction, PackerOptions options);

  // Raw blocks, at least 1 and at most `wanted`, that go into the present extent as one unit.
  absl::StatusOr<uint32_t> RawRoom(uint32_t wanted);
  // Room for the stored bytes of `unit` (its number, stored_bytes, stored_mask, codec and
  // block_count are read), to be filled before the next call.
  absl::StatusOr<std::span<std::byte>> Add(const ExtentUnit& unit);
  // The same for a block on its own. `entry` is set to its place when its extent is full or at
  // SubmitRest, and must stay where it is until then.
  absl::StatusOr<std::span<std::byte>> AddBlock(uint64_t block, uint32_t crc32c, MapEntry* entry);
  // Starts the last extent on its way. Nothing may be added after it.
  absl::Status SubmitRest();
  // Does that too, waits for all extents and flushes the devices.
  absl::Status Finish();

  uint64_t written_bytes() const { return written_bytes_; }

 private:
  absl::Status OpenExtent(uint64_t bytes_min);
  absl::Status CloseExtent();

  const CapacityLayout& layout_;
  SegmentTable& segments_;
  ExtentWriter& writer_;
  MapTransaction& transaction_;
  const PackerOptions options_;
  std::optional<ExtentPlace> place_;
  std::optional<ExtentBuilder> builder_;
  std::vector<MapEntry*> entries_;  // of the extent's blocks
  uint64_t written_bytes_ = 0;
};

}  // namespace ebb::storage
