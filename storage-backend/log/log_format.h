// The bytes of the cache device between its two superblocks: segments of append groups.
//
//   block 0      1 ...                                                     last block
//   [superblock][segment 0: [header][data]...[data][header][data]... ][segment 1]...[superblock]
//
// A group is one header block and the data blocks its entries describe, in their order. Its
// sequence number is one more than that of the group before it, whatever segment that is in; a
// segment's groups follow each other without a gap. Every byte: docs/formats.md, "Cache device".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "storage-backend/device/superblock.h"

namespace ebb::storage {

inline constexpr uint32_t kCacheBlockBytes = 4096;

// Where segments are. Cache blocks are numbered by their offset on the device / 4096, so block 0 (a
// superblock) is never a place of data and serves as "none".
struct LogGeometry {
  uint32_t segment_blocks = 0;
  uint32_t segment_count = 0;

  uint32_t FirstBlock(uint32_t segment) const { return 1 + segment * segment_blocks; }
  uint32_t SegmentOf(uint32_t cache_block) const { return (cache_block - 1) / segment_blocks; }
  uint32_t end_block() const { return 1 + segment_count * segment_blocks; }
  uint64_t space_bytes() const {
    return uint64_t{segment_count} * segment_blocks * kCacheBlockBytes;
  }
};

// The segment size for a device: `asked` when not 0, else a 64th of the device within 256 KiB and
// 16 MiB. InvalidArgument when the device is too small for 8 segments, or above 16 TiB.
absl::StatusOr<LogGeometry> ChooseGeometry(uint64_t device_bytes, uint64_t asked_segment_bytes);

enum class EntryKind : uint8_t {
  kVoid = 0,    // a data block nobody refers to (its write was withdrawn)
  kData = 1,    // one block of user data
  kTrim = 2,    // a range now reads as zeroes, no data block
  kZeroes = 3,  // the same, asked for by write-zeroes
  kCopy = 4     // a clean copy of a block of the capacity tier, kept for reads
};

inline bool HasDataBlock(EntryKind kind) {
  return kind == EntryKind::kVoid || kind == EntryKind::kData || kind == EntryKind::kCopy;
}

struct LogEntry {
  EntryKind kind = EntryKind::kVoid;
  uint32_t crc32c = 0;  // of the data block
  uint64_t block = 0;   // volume block, below 2^32
  uint64_t count = 0;   // blocks of a range; 1 for data
};

struct GroupHeader {
  // Identity of the log: another node's group, or one from before a re-format, never matches.
  Uuid node_uuid{};
  // Raised at every open, so that a group that was torn off an earlier session's tail is never
  // taken for the successor of one written later with the same number.
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  // Every group up to this one was known to survive power loss when this header was made.
  uint64_t durable_sequence = 0;
  uint32_t header_block = 0;  // where this header is: a misdirected write shows
  uint32_t payload_blocks = 0;
  uint32_t entry_count = 0;
};

inline constexpr uint32_t kGroupEntriesMax = 250;
// Payload of a group: 256 KiB with its header. Costs 1.6 % of the device's writes, and two groups
// in turn stay in the processor's own cache.
inline constexpr uint32_t kGroupBlocksMax = 63;
inline constexpr size_t kGroupsInTurnMin = 2;
inline constexpr size_t kGroupBuffers = 16;

// Entry `index` of a header block under construction.
void EncodeEntry(std::span<std::byte> block, uint32_t index, const LogEntry& entry);
LogEntry DecodeEntry(std::span<const std::byte> block, uint32_t index);
// Fills in everything but the entries, and the checksum over all of the block.
void EncodeHeader(std::span<std::byte> block, const GroupHeader& header);
// The header in `block`; DataLoss when it is none or damaged, saying which.
absl::StatusOr<GroupHeader> DecodeHeader(std::span<const std::byte> block);

}  // namespace ebb::storage
