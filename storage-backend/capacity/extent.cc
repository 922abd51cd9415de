#include "storage-backend/capacity/extent.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "storage-backend/capacity/byte_io.h"
#include "storage-backend/reduce/compressor.h"

namespace ebb::storage {
namespace {

constexpr std::string_view kMark("EBBEXT\n\0", 8);
constexpr uint32_t kVersion = 2;
constexpr uint64_t kBlockLimit = uint64_t{1} << 48;  // the header spends 6 bytes on one
constexpr size_t kCrcOffset = 60;
constexpr uint64_t kHeaderBytesMax = 64 << 10;

uint64_t RoundUp(uint64_t bytes, uint64_t grain) { return (bytes + grain - 1) / grain * grain; }

std::string EncodeHeader(const ExtentHeader& header) {
  ByteWriter writer;
  writer.Reserve(header.header_bytes);
  writer.Bytes(kMark);
  writer.Fixed(kVersion);
  writer.Fixed(header.header_bytes);
  writer.Bytes({reinterpret_cast<const char*>(header.node_uuid.data()), header.node_uuid.size()});
  writer.Fixed(header.segment_sequence);
  writer.Fixed(header.device_offset);
  writer.Fixed(header.device);
  writer.Fixed(header.payload_bytes);
  writer.Fixed(static_cast<uint32_t>(header.units.size()));
  writer.Fixed(uint32_t{0});  // the checksum's place
  writer.Fixed(static_cast<uint32_t>(header.blocks.size()));
  writer.Fixed(uint32_t{0});
  for (const ExtentUnit& unit : header.units) {
    writer.Fixed(unit.unit);
    writer.Fixed(unit.offset);
    writer.Fixed(unit.stored_bytes);
    writer.Fixed(unit.stored_crc32c);
    writer.Fixed(unit.stored_mask);
    writer.Fixed(static_cast<uint8_t>(unit.codec));
    writer.Fixed(unit.block_count);
    writer.Fixed(uint16_t{0});
  }
  for (const ExtentBlock& block : header.blocks) {
    writer.Fixed(block.block | uint64_t{block.offset / kCapacityBlockBytes} << 48);
    writer.Fixed(block.crc32c);
  }
  return writer.Take();
}

// The checksum of header bytes whose own checksum field counts as zero.
uint32_t HeaderCrc(std::span<const std::byte> header) {
  constexpr std::array<std::byte, 4> kZero{};
  uint32_t crc = Crc32c(header.first(kCrcOffset));
  crc = Crc32c(kZero, crc);
  return Crc32c(header.subspan(kCrcOffset + kZero.size()), crc);
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Status Bad(std::string_view why) {
  return absl::DataLossError(absl::StrCat("extent header: ", std::string(why)));
}

// Whether the bytes are within the payload.
bool FitsIn(const ExtentHeader& header, uint64_t offset, uint64_t bytes) {
  return offset >= header.header_bytes &&
         offset + bytes <= uint64_t{header.header_bytes} + header.payload_bytes;
}

}  // namespace

absl::StatusOr<ExtentHeader> DecodeExtentHeader(std::span<const std::byte> extent) {
  if (extent.size() < kCapacityBlockBytes) return Bad("less than a block");
  ByteReader reader(AsText(extent));
  if (reader.Bytes(kMark.size()) != kMark) return Bad("no mark");
  if (const auto version = reader.Fixed<uint32_t>(); version != kVersion) {
    return Bad(absl::StrCat("version ", version));
  }
  ExtentHeader header;
  header.header_bytes = reader.Fixed<uint32_t>();
  if (header.header_bytes < kCapacityBlockBytes || header.header_bytes > kHeaderBytesMax ||
      header.header_bytes % kCapacityBlockBytes != 0 || header.header_bytes > extent.size()) {
    return Bad(absl::StrCat("length ", header.header_bytes));
  }
  std::memcpy(header.node_uuid.data(), reader.Bytes(header.node_uuid.size()).data(),
              header.node_uuid.size());
  header.segment_sequence = reader.Fixed<uint64_t>();
  header.device_offset = reader.Fixed<uint64_t>();
  header.device = reader.Fixed<uint32_t>();
  header.payload_bytes = reader.Fixed<uint32_t>();
  const auto units = reader.Fixed<uint32_t>();
  if (reader.Fixed<uint32_t>() != HeaderCrc(extent.first(header.header_bytes))) {
    return Bad("checksum mismatch");
  }
  const auto blocks = reader.Fixed<uint32_t>();
  (void)reader.Fixed<uint32_t>();
  if (kExtentHeaderFixedBytes + units * kUnitEntryBytes + blocks * kDirectEntryBytes >
      header.header_bytes) {
    return Bad(absl::StrCat(units, " units and ", blocks, " blocks"));
  }
  header.units.resize(units);
  for (ExtentUnit& unit : header.units) {
    unit.unit = reader.Fixed<uint64_t>();
    unit.offset = reader.Fixed<uint32_t>();
    unit.stored_bytes = reader.Fixed<uint32_t>();
    unit.stored_crc32c = reader.Fixed<uint32_t>();
    unit.stored_mask = reader.Fixed<uint32_t>();
    unit.codec = static_cast<Compression>(reader.Fixed<uint8_t>());
    unit.block_count = reader.Fixed<uint8_t>();
    (void)reader.Fixed<uint16_t>();
    if (!FitsIn(header, unit.offset, unit.stored_bytes) || unit.block_count == 0 ||
        unit.block_count > kUnitBlocksMax || unit.codec > Compression::kZstd3) {
      return Bad(absl::StrCat("unit ", unit.unit, " makes no sense"));
    }
  }
  header.blocks.resize(blocks);
  for (ExtentBlock& block : header.blocks) {
    const auto place = reader.Fixed<uint64_t>();
    block.block = place % kBlockLimit;
    block.offset = static_cast<uint32_t>((place >> 48) * kCapacityBlockBytes);
    block.crc32c = reader.Fixed<uint32_t>();
    if (!FitsIn(header, block.offset, kCapacityBlockBytes)) {
      return Bad(absl::StrCat("block ", block.block, " lies outside of its extent"));
    }
  }
  return header;
}

uint64_t ExtentBuilder::BufferBytes(uint64_t limit_bytes) {
  return kHeaderBytesMax + std::min(limit_bytes, kExtentBytesMax);
}

ExtentBuilder::ExtentBuilder(std::span<std::byte> buffer, uint64_t limit_bytes)
    : buffer_(buffer), limit_bytes_(std::min(limit_bytes, kExtentBytesMax)) {
  EBB_CHECK(buffer_.size() >= BufferBytes(limit_bytes_));
}

uint64_t ExtentBuilder::HeaderBytesFor(size_t more_units, size_t more_blocks) const {
  return RoundUp(kExtentHeaderFixedBytes + (header_.units.size() + more_units) * kUnitEntryBytes +
                     (header_.blocks.size() + more_blocks) * kDirectEntryBytes,
                 kCapacityBlockBytes);
}

uint32_t ExtentBuilder::RawBlocksThatFit() const {
  const uint64_t used = HeaderBytesFor(1, 0) + RoundUp(payload_bytes_, kCapacityBlockBytes);
  return used >= limit_bytes_ ? 0
                              : static_cast<uint32_t>((limit_bytes_ - used) / kCapacityBlockBytes);
}

bool ExtentBuilder::Fits(uint64_t stored_bytes, bool raw) const {
  const uint64_t header_bytes = HeaderBytesFor(1, 0);
  const uint64_t start = raw ? RoundUp(payload_bytes_, kCapacityBlockBytes) : payload_bytes_;
  return header_bytes <= kHeaderBytesMax &&
         header_bytes + RoundUp(start + stored_bytes, kCapacityBlockBytes) <= limit_bytes_;
}

bool ExtentBuilder::FitsBlock() const {
  const uint64_t header_bytes = HeaderBytesFor(0, 1);
  return header_bytes <= kHeaderBytesMax &&
         header_bytes + RoundUp(payload_bytes_, kCapacityBlockBytes) + kCapacityBlockBytes <=
             limit_bytes_;
}

std::span<std::byte> ExtentBuilder::Room(uint64_t bytes, bool aligned) {
  const uint64_t start = aligned ? RoundUp(payload_bytes_, kCapacityBlockBytes) : payload_bytes_;
  const std::span<std::byte> payload = buffer_.subspan(kHeaderBytesMax);
  // Padding is written too: zeroes, not what the buffer held before.
  std::memset(payload.data() + payload_bytes_, 0, start - payload_bytes_);
  const uint64_t end = RoundUp(start + bytes, kStoredUnitBytes);
  std::memset(payload.data() + start + bytes, 0, end - start - bytes);
  payload_bytes_ = end;
  return payload.subspan(start, bytes);
}

std::span<std::byte> ExtentBuilder::Add(const ExtentUnit& unit) {
  const bool raw = unit.codec == Compression::kOff;
  EBB_CHECK(Fits(unit.stored_bytes, raw));
  const std::span<std::byte> room = Room(unit.stored_bytes, raw);
  header_.units.push_back(unit);
  // Of the payload until Finish.
  header_.units.back().offset =
      static_cast<uint32_t>(room.data() - buffer_.data() - kHeaderBytesMax);
  return room;
}

std::span<std::byte> ExtentBuilder::AddBlock(uint64_t block, uint32_t crc32c) {
  EBB_CHECK(FitsBlock() && block < kBlockLimit);
  const std::span<std::byte> room = Room(kCapacityBlockBytes, /*aligned=*/true);
  header_.blocks.push_back(
      {.block = block,
       .offset = static_cast<uint32_t>(room.data() - buffer_.data() - kHeaderBytesMax),
       .crc32c = crc32c});
  return room;
}

ExtentBuilder::Finished ExtentBuilder::Finish(const ExtentHeader& place) {
  EBB_CHECK(!empty());
  const std::span<std::byte> payload = buffer_.subspan(kHeaderBytesMax);
  const uint64_t padded = RoundUp(payload_bytes_, kCapacityBlockBytes);
  std::memset(payload.data() + payload_bytes_, 0, padded - payload_bytes_);
  const uint64_t header_bytes = HeaderBytesFor(0, 0);

  header_.node_uuid = place.node_uuid;
  header_.segment_sequence = place.segment_sequence;
  header_.device_offset = place.device_offset;
  header_.device = place.device;
  header_.header_bytes = static_cast<uint32_t>(header_bytes);
  header_.payload_bytes = static_cast<uint32_t>(padded);
  for (ExtentUnit& unit : header_.units) {
    unit.stored_crc32c = Crc32c(payload.subspan(unit.offset, unit.stored_bytes));
    unit.offset += header_.header_bytes;
  }
  for (ExtentBlock& block : header_.blocks) block.offset += header_.header_bytes;
  const std::span<std::byte> front = buffer_.subspan(kHeaderBytesMax - header_bytes, header_bytes);
  const std::string encoded = EncodeHeader(header_);
  std::memset(front.data(), 0, front.size());
  std::memcpy(front.data(), encoded.data(), encoded.size());
  const uint32_t crc = HeaderCrc(front);
  std::memcpy(front.data() + kCrcOffset, &crc, sizeof crc);
  return {buffer_.subspan(kHeaderBytesMax - header_bytes, header_bytes + padded), header_};
}

}  // namespace ebb::storage
