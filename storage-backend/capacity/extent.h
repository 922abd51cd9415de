// ExtentBuilder packs units and direct blocks into one extent: a header that says what lies where,
// and the payload.
//
// The map of the store lives in the metadata; the header is there for tools that look at a device
// alone, and for the scrubber. Direct blocks and raw units start at a multiple of 4 KiB, so that a
// miss of one block is one 4 KiB read; compressed ones are packed at multiples of 512 bytes. The
// exact bytes: docs/formats.md, "Capacity device".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "storage-backend/capacity/layout.h"
#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

struct ExtentUnit {
  uint64_t unit = 0;
  uint32_t offset = 0;  // from the extent's start
  uint32_t stored_bytes = 0;
  uint32_t stored_crc32c = 0;  // of the stored bytes
  uint32_t stored_mask = 0;    // as in UnitRecord
  Compression codec = Compression::kOff;
  uint8_t block_count = 0;
  friend bool operator==(const ExtentUnit&, const ExtentUnit&) = default;
};

// A block of the volume that is stored on its own.
struct ExtentBlock {
  uint64_t block = 0;
  uint32_t offset = 0;  // from the extent's start
  uint32_t crc32c = 0;  // of its bytes
  friend bool operator==(const ExtentBlock&, const ExtentBlock&) = default;
};

struct ExtentHeader {
  std::array<uint8_t, 16> node_uuid{};
  uint64_t segment_sequence = 0;
  uint64_t device_offset = 0;  // its own place: a copy elsewhere is not this extent
  uint32_t device = 0;
  uint32_t header_bytes = 0;   // whole 4 KiB blocks
  uint32_t payload_bytes = 0;  // likewise
  std::vector<ExtentUnit> units;
  std::vector<ExtentBlock> blocks;
};

// Header blocks at the front of `extent`, which holds at least one block. DataLoss when they are
// not a whole and undamaged header.
absl::StatusOr<ExtentHeader> DecodeExtentHeader(std::span<const std::byte> extent);

class ExtentBuilder {
 public:
  // Bytes that a buffer for extents of at most `limit_bytes` needs: the header grows down from the
  // payload.
  static uint64_t BufferBytes(uint64_t limit_bytes);

  // Starts an extent of at most `limit_bytes` (whole blocks, at least two) in `buffer`. The
  // header's place, device and sequence are the caller's; its units come from Add.
  ExtentBuilder(std::span<std::byte> buffer, uint64_t limit_bytes);

  // Raw blocks that still fit as one more unit.
  uint32_t RawBlocksThatFit() const;
  bool Fits(uint64_t stored_bytes, bool raw) const;
  bool FitsBlock() const;
  // Room for the stored bytes of a unit that fits; the caller fills it before Finish. `unit.offset`
  // and `unit.stored_crc32c` are set by Finish.
  std::span<std::byte> Add(const ExtentUnit& unit);
  // The same for a direct block whose bytes have this checksum.
  std::span<std::byte> AddBlock(uint64_t block, uint32_t crc32c);
  bool empty() const { return header_.units.empty() && header_.blocks.empty(); }

  struct Finished {
    std::span<const std::byte> bytes;  // to be written at header.device_offset
    const ExtentHeader& header;        // the builder's
  };
  Finished Finish(const ExtentHeader& place);

 private:
  uint64_t HeaderBytesFor(size_t more_units, size_t more_blocks) const;
  std::span<std::byte> Room(uint64_t bytes, bool aligned);

  std::span<std::byte> buffer_;
  const uint64_t limit_bytes_;
  uint64_t payload_bytes_ = 0;
  ExtentHeader header_;
};

}  // namespace ebb::storage
