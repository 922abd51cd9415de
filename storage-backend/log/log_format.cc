#include "storage-backend/log/log_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kMagic = {'E', 'B', 'B', 'G', 'R', 'O', 'U', 'P'};
constexpr uint32_t kFormatVersion = 1;

struct DiskHeader {
  std::array<char, 8> magic;
  uint32_t format_version;
  uint32_t entry_count;
  Uuid node_uuid;
  uint64_t epoch;
  uint64_t sequence;
  uint64_t durable_sequence;
  uint32_t header_block;
  uint32_t payload_blocks;
};
static_assert(sizeof(DiskHeader) == 64);

struct DiskEntry {
  uint8_t kind;
  std::array<uint8_t, 3> reserved;
  uint32_t crc32c;
  uint32_t block;
  uint32_t count_minus_one;
};
static_assert(sizeof(DiskEntry) == 16);

constexpr size_t kCrcOffset = kCacheBlockBytes - sizeof(uint32_t);
static_assert(sizeof(DiskHeader) + kGroupEntriesMax * sizeof(DiskEntry) <= kCrcOffset);

size_t EntryOffset(uint32_t index) { return sizeof(DiskHeader) + index * sizeof(DiskEntry); }

}  // namespace

absl::StatusOr<LogGeometry> ChooseGeometry(uint64_t device_bytes, uint64_t asked_segment_bytes) {
  constexpr uint64_t kSegmentCountMin = 8;
  constexpr uint64_t kSegmentBlocksMin = 4;
  const uint64_t blocks = device_bytes / kCacheBlockBytes;
  if (blocks >= (uint64_t{1} << 32)) {
    return absl::InvalidArgumentError(
        fmt::format("the cache device has {}; 16 TiB is the most", FormatBytes(device_bytes)));
  }
  uint64_t segment_bytes = asked_segment_bytes;
  if (segment_bytes == 0) {
    segment_bytes = std::clamp(device_bytes / 64, 256 * kKiB, 16 * kMiB);
    segment_bytes = segment_bytes / kCacheBlockBytes * kCacheBlockBytes;
  }
  if (segment_bytes % kCacheBlockBytes != 0 ||
      segment_bytes / kCacheBlockBytes < kSegmentBlocksMin) {
    return absl::InvalidArgumentError(fmt::format(
        "a cache segment of {} bytes is not a multiple of 4096 from 16 KiB on", segment_bytes));
  }
  const uint64_t segment_blocks = segment_bytes / kCacheBlockBytes;
  const uint64_t segment_count = blocks < 2 ? 0 : (blocks - 2) / segment_blocks;
  if (segment_count < kSegmentCountMin) {
    return absl::InvalidArgumentError(
        fmt::format("the cache device has {}, too small for {} segments of {}",
                    FormatBytes(device_bytes), kSegmentCountMin, FormatBytes(segment_bytes)));
  }
  return LogGeometry{.segment_blocks = static_cast<uint32_t>(segment_blocks),
                     .segment_count = static_cast<uint32_t>(segment_count)};
}

void EncodeEntry(std::span<std::byte> block, uint32_t index, const LogEntry& entry) {
  const DiskEntry disk = {.kind = static_cast<uint8_t>(entry.kind),
                          .reserved = {},
                          .crc32c = entry.crc32c,
                          .block = static_cast<uint32_t>(entry.block),
                          .count_minus_one = static_cast<uint32_t>(entry.count - 1)};
  std::memcpy(block.data() + EntryOffset(index), &disk, sizeof disk);
}

LogEntry DecodeEntry(std::span<const std::byte> block, uint32_t index) {
  DiskEntry disk;
  std::memcpy(&disk, block.data() + EntryOffset(index), sizeof disk);
  return {.kind = static_cast<EntryKind>(disk.kind),
          .crc32c = disk.crc32c,
          .block = disk.block,
          .count = uint64_t{disk.count_minus_one} + 1};
}

void EncodeHeader(std::span<std::byte> block, const GroupHeader& header) {
  EBB_CHECK(block.size() == kCacheBlockBytes && header.entry_count <= kGroupEntriesMax);
  const DiskHeader disk = {.magic = kMagic,
                           .format_version = kFormatVersion,
                           .entry_count = header.entry_count,
                           .node_uuid = header.node_uuid,
                           .epoch = header.epoch,
                           .sequence = header.sequence,
                           .durable_sequence = header.durable_sequence,
                           .header_block = header.header_block,
                           .payload_blocks = header.payload_blocks};
  std::memcpy(block.data(), &disk, sizeof disk);
  const size_t end = EntryOffset(header.entry_count);
  std::memset(block.data() + end, 0, kCrcOffset - end);
  const uint32_t crc = Crc32c(block.first(kCrcOffset));
  std::memcpy(block.data() + kCrcOffset, &crc, sizeof crc);
}

absl::StatusOr<GroupHeader> DecodeHeader(std::span<const std::byte> block) {
  EBB_CHECK(block.size() == kCacheBlockBytes);
  DiskHeader disk;
  std::memcpy(&disk, block.data(), sizeof disk);
  if (disk.magic != kMagic) return absl::DataLossError("no group header");
  uint32_t crc = 0;
  std::memcpy(&crc, block.data() + kCrcOffset, sizeof crc);
  if (crc != Crc32c(block.first(kCrcOffset))) {
    return absl::DataLossError("group header with a wrong checksum");
  }
  if (disk.format_version != kFormatVersion) {
    return absl::DataLossError(
        fmt::format("group header of format version {}, this program "
                    "knows {}",
                    disk.format_version, kFormatVersion));
  }
  if (disk.entry_count > kGroupEntriesMax || disk.payload_blocks > disk.entry_count) {
    return absl::DataLossError("group header with impossible counts");
  }
  // The payload must be what the entries describe: a decoder of user data relies on it.
  uint32_t data_blocks = 0;
  for (uint32_t i = 0; i < disk.entry_count; ++i) {
    const LogEntry entry = DecodeEntry(block, i);
    if (entry.kind > EntryKind::kCopy) return absl::DataLossError("group entry of unknown kind");
    if (HasDataBlock(entry.kind)) ++data_blocks;
  }
  if (data_blocks != disk.payload_blocks) {
    return absl::DataLossError("group header with impossible counts");
  }
  return GroupHeader{.node_uuid = disk.node_uuid,
                     .epoch = disk.epoch,
                     .sequence = disk.sequence,
                     .durable_sequence = disk.durable_sequence,
                     .header_block = disk.header_block,
                     .payload_blocks = disk.payload_blocks,
                     .entry_count = disk.entry_count};
}

}  // namespace ebb::storage
