// The tables of the capacity tier, as bytes: keys and values of the metadata store.
//
// Keys are big-endian so that scans run in numeric order; every value ends with a CRC32C over key
// and value, so that a damaged record is an error and never a wrong answer. The exact bytes:
// docs/formats.md, "Metadata tables".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/capacity/layout.h"
#include "storage-backend/capacity/map_entry.h"
#include "storage-backend/knobs/knobs.h"
#include "storage-backend/reduce/fingerprint.h"

namespace ebb::storage {

// Table kMap: where the blocks of the volume are stored, kPageBlocks of them a page. A page without
// a mapped block has no record.
inline constexpr uint64_t kPageBlocks = 128;
using MapPage = std::array<MapEntry, kPageBlocks>;

std::string PageKey(uint64_t page);
uint64_t ParsePageKey(std::string_view key);  // of 8 bytes
// Empty when nothing is mapped: then the record is to be deleted.
std::string EncodePage(uint64_t page, const MapPage& entries);
absl::StatusOr<MapPage> DecodePage(uint64_t page, std::string_view value);

// Table kUnits: blocks stored together, raw or as one compressed piece.
struct UnitRecord {
  struct Block {
    uint32_t crc32c = 0;  // of the uncompressed 4 KiB
    uint32_t references = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  // At most kUnitBlocksMax, in place: records are copied in and out of caches all the time.
  class BlockList {
   public:
    size_t size() const { return count_; }
    Block* begin() { return blocks_.data(); }
    Block* end() { return blocks_.data() + count_; }
    const Block* begin() const { return blocks_.data(); }
    const Block* end() const { return blocks_.data() + count_; }
    Block& operator[](size_t index) { return blocks_[index]; }
    const Block& operator[](size_t index) const { return blocks_[index]; }
    void resize(size_t count) { count_ = static_cast<uint8_t>(count); }
    void push_back(const Block& block) { blocks_[count_++] = block; }
    friend bool operator==(const BlockList& a, const BlockList& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

   private:
    uint8_t count_ = 0;
    std::array<Block, kUnitBlocksMax> blocks_{};
  };
  Compression codec = Compression::kOff;
  bool fingerprinted = false;  // a fingerprints record exists: kFingerprints names blocks of it
  uint8_t device = 0;
  uint64_t offset = 0;        // on the device, a multiple of 512 (of 4096 when raw)
  uint32_t stored_bytes = 0;  // without padding
  uint32_t stored_mask = 0;   // bit i: the bytes of block i are there (dead ones may still be)
  BlockList blocks;

  bool IsStored(uint8_t index) const { return index < 32 && ((stored_mask >> index) & 1) != 0; }
  // Position of block `index` among the stored ones: raw blocks lie in this order.
  uint32_t Rank(uint8_t index) const;
  uint32_t StoredBlocks() const;
  uint32_t LiveMask() const;
  uint32_t LiveBlocks() const;
  // Bytes on the device up to the next unit.
  uint64_t PaddedBytes() const;
  // Bytes that compaction would write for what is still referred to; 0 when nothing is.
  uint64_t LiveDataBytes() const;
  // The same with the entry in the extent's header: what segments count. An upper bound, on which
  // promises of free space rest.
  uint64_t LiveBytes() const;
  // What LiveBytes will probably be after a move: a compressed unit shrinks with its live share.
  // What compaction chooses by.
  uint64_t ExpectedBytes() const;

  friend bool operator==(const UnitRecord&, const UnitRecord&) = default;
};

std::string UnitKey(uint64_t unit);
std::string UnitFingerprintsKey(uint64_t unit);
// The unit of either kind of key; `is_fingerprints` tells which.
absl::StatusOr<uint64_t> ParseUnitKey(std::string_view key, bool& is_fingerprints);
std::string EncodeUnit(uint64_t unit, const UnitRecord& record);
absl::StatusOr<UnitRecord> DecodeUnit(uint64_t unit, std::string_view value);
// The unit's blocks that can be found by their content, ascending.
struct BlockFingerprint {
  uint8_t index = 0;
  Fingerprint fingerprint{};
  friend bool operator==(const BlockFingerprint&, const BlockFingerprint&) = default;
};
std::string EncodeUnitFingerprints(uint64_t unit, std::span<const BlockFingerprint> fingerprints);
absl::StatusOr<std::vector<BlockFingerprint>> DecodeUnitFingerprints(uint64_t unit,
                                                                     std::string_view value);

// Table kFingerprints: the stored block with this content.
std::string FingerprintKey(const Fingerprint& fingerprint);
std::string EncodeFingerprintEntry(const Fingerprint& fingerprint, const BlockRef& ref);
absl::StatusOr<BlockRef> DecodeFingerprintEntry(std::string_view key, std::string_view value);

// Table kSegments: use of a segment; free ones have no record.
enum class SegmentState : uint8_t { kFree = 0, kOpenStore = 1, kOpenCompaction = 2, kSealed = 3 };
struct SegmentRecord {
  SegmentState state = SegmentState::kFree;
  uint64_t sequence = 0;        // order in which segments were opened
  uint32_t written_bytes = 0;   // from the segment's start; the next extent goes there
  uint32_t live_bytes = 0;      // sum of UnitRecord::LiveBytes of its units
  uint32_t expected_bytes = 0;  // sum of UnitRecord::ExpectedBytes of its units
  friend bool operator==(const SegmentRecord&, const SegmentRecord&) = default;
};

struct SegmentId {
  uint8_t device = 0;
  uint32_t segment = 0;
  // clang-tidy 14 takes what the compiler writes here for a null pointer.
  friend auto operator<=>(const SegmentId&,
                          const SegmentId&) = default;  // NOLINT(modernize-use-nullptr)
};

std::string SegmentKey(SegmentId id);
std::string EncodeSegment(SegmentId id, const SegmentRecord& record);
absl::StatusOr<SegmentRecord> DecodeSegment(SegmentId id, std::string_view value);

// Table kExtents: what an extent was written with: units, and volume blocks of direct entries. Both
// ascending; much of it may be dead or elsewhere by now.
struct ExtentContent {
  std::vector<uint64_t> units;
  std::vector<uint64_t> blocks;
  friend bool operator==(const ExtentContent&, const ExtentContent&) = default;
};
std::string ExtentKey(SegmentId id, uint32_t offset_in_segment);
std::string EncodeExtent(SegmentId id, uint32_t offset_in_segment, const ExtentContent& content);
// Adds to `content`.
absl::Status DecodeExtent(std::string_view key, std::string_view value, ExtentContent& content);
absl::StatusOr<SegmentId> ParseSegmentKey(std::string_view key);
absl::StatusOr<SegmentId> ParseExtentKey(std::string_view key);

// Table kJournal: the map changes and the segments' new records of one commit. The pages and
// records themselves are written later; until then the journal is what counts (docs/formats.md).
struct SegmentChange {
  SegmentId id;
  SegmentRecord record;  // kFree: it has none any more
  friend bool operator==(const SegmentChange&, const SegmentChange&) = default;
};
struct JournalRecord {
  std::vector<MapChange> blocks;  // ascending
  std::vector<SegmentChange> segments;
};
std::string JournalKey(uint64_t sequence);
std::string EncodeJournal(uint64_t sequence, std::span<const MapChange> blocks,
                          std::span<const SegmentChange> segments);
absl::StatusOr<JournalRecord> DecodeJournal(uint64_t sequence, std::string_view value);

// Table kNode: what the devices must look like, and the tier's totals.
inline constexpr std::string_view kFormatKey = "capacity/format";
inline constexpr std::string_view kTotalsKey = "capacity/totals";

struct FormatRecord {
  std::array<uint8_t, 16> node_uuid{};
  uint32_t segment_bytes = 0;
  std::vector<uint64_t> device_bytes;
  friend bool operator==(const FormatRecord&, const FormatRecord&) = default;
};
std::string EncodeFormat(const FormatRecord& record);
absl::StatusOr<FormatRecord> DecodeFormat(std::string_view value);

struct TotalsRecord {
  uint64_t next_unit = 1;
  uint64_t next_sequence = 1;
  uint64_t mapped_blocks = 0;
  uint64_t unique_blocks = 0;
  uint64_t stored_bytes = 0;  // sum of UnitRecord::LiveDataBytes, 4096 for a direct entry
  // The journal's records that count: [journal_first, journal_next).
  uint64_t journal_first = 1;
  uint64_t journal_next = 1;
  friend bool operator==(const TotalsRecord&, const TotalsRecord&) = default;
};
std::string EncodeTotals(const TotalsRecord& record);
absl::StatusOr<TotalsRecord> DecodeTotals(std::string_view value);

}  // namespace ebb::storage
