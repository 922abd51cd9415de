#include "storage-backend/capacity/extent.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/crc32c.h"

namespace ebb::storage {
namespace {

struct Built {
  std::vector<std::byte> bytes;
  ExtentHeader header;
};

Built BuildSample() {
  AlignedBuffer buffer(ExtentBuilder::BufferBytes(kExtentBytesMax));
  std::memset(buffer.data(), 0xee, buffer.size());
  ExtentBuilder builder(buffer.span(), 128 << 10);
  const auto add = [&](uint64_t unit, uint32_t bytes, Compression codec, int fill) {
    const std::span<std::byte> room = builder.Add(
        {.unit = unit, .stored_bytes = bytes, .stored_mask = 1, .codec = codec, .block_count = 1});
    EXPECT_EQ(room.size(), bytes);
    std::memset(room.data(), fill, room.size());
  };
  add(10, 4096, Compression::kOff, 1);
  add(11, 700, Compression::kLz4, 2);
  add(12, 1500, Compression::kZstd3, 3);
  add(13, 8192, Compression::kOff, 4);
  add(14, 700, Compression::kLz4, 5);
  std::vector<std::byte> block(4096, std::byte{6});
  std::memcpy(builder.AddBlock(777, Crc32c(block)).data(), block.data(), block.size());
  ExtentHeader place;
  place.node_uuid = {9, 8, 7};
  place.segment_sequence = 5;
  place.device_offset = 65536;
  place.device = 2;
  const ExtentBuilder::Finished finished = builder.Finish(place);
  return {{finished.bytes.begin(), finished.bytes.end()}, finished.header};
}

TEST(ExtentTest, HeaderComesBackAndUnitsLieWhereItSays) {
  const Built extent = BuildSample();

  const absl::StatusOr<ExtentHeader> header = DecodeExtentHeader(extent.bytes);

  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->node_uuid, extent.header.node_uuid);
  EXPECT_EQ(header->device_offset, 65536u);
  EXPECT_EQ(header->device, 2u);
  EXPECT_EQ(header->segment_sequence, 5u);
  EXPECT_EQ(header->header_bytes + header->payload_bytes, extent.bytes.size());
  ASSERT_EQ(header->units.size(), 5u);
  ASSERT_EQ(header->blocks.size(), 1u);
  EXPECT_EQ(header->blocks, extent.header.blocks);
  EXPECT_EQ(header->blocks[0].block, 777u);
  const auto block = std::span(extent.bytes).subspan(header->blocks[0].offset, 4096);
  EXPECT_EQ(Crc32c(block), header->blocks[0].crc32c);
  EXPECT_EQ(block.front(), std::byte{6});
  EXPECT_EQ(header->units, extent.header.units);
  for (size_t i = 0; i < 5; ++i) {
    const ExtentUnit& unit = header->units[i];
    const std::span<const std::byte> stored =
        std::span(extent.bytes).subspan(unit.offset, unit.stored_bytes);
    EXPECT_EQ(Crc32c(stored), unit.stored_crc32c);
    EXPECT_EQ(stored.front(), static_cast<std::byte>(i + 1));
    EXPECT_EQ(stored.back(), static_cast<std::byte>(i + 1));
  }
}

TEST(ExtentTest, RawUnitsAreAlignedAndCompressedOnesPacked) {
  const ExtentHeader header = BuildSample().header;

  EXPECT_EQ(header.units[0].offset % 4096, 0u);
  EXPECT_EQ(header.units[1].offset, header.units[0].offset + 4096);
  EXPECT_EQ(header.units[2].offset, header.units[1].offset + 1024);
  EXPECT_EQ(header.units[3].offset, header.units[0].offset + 8192);
  EXPECT_EQ(header.blocks[0].offset, header.units[0].offset + 20480);
}

// Goal: nothing of the buffer's earlier use reaches the disk.
TEST(ExtentTest, PaddingIsZero) {
  const Built extent = BuildSample();
  for (const std::byte byte : extent.bytes) EXPECT_NE(byte, std::byte{0xee});
}

TEST(ExtentTest, EveryFlippedHeaderByteIsDetected) {
  const Built extent = BuildSample();
  for (size_t i = 0; i < extent.header.header_bytes; ++i) {
    std::vector<std::byte> damaged = extent.bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(DecodeExtentHeader(damaged).ok()) << i;
  }
  EXPECT_FALSE(DecodeExtentHeader(std::span(extent.bytes).first(2048)).ok());
}

// Goal: the header grows with the units and both stay within the limit, whatever is added.
// Found by extent_header_fuzz: a whole header may still say nonsense.
TEST(ExtentTest, UnitsAndBlocksOutsideOfTheExtentAreRefused) {
  constexpr size_t kCrcOffset = 60;
  constexpr size_t kFirstUnitOffset =
      kExtentHeaderFixedBytes + 8;  // where the header says where the unit lies
  const Built built = BuildSample();
  for (const uint32_t offset : {0u, 64u, 0xffffff00u}) {
    std::vector<std::byte> bytes = built.bytes;
    std::memcpy(&bytes[kFirstUnitOffset], &offset, sizeof offset);
    std::memset(&bytes[kCrcOffset], 0, sizeof(uint32_t));
    const uint32_t crc = Crc32c(std::span(bytes).first(built.header.header_bytes));
    std::memcpy(&bytes[kCrcOffset], &crc, sizeof crc);

    const absl::StatusOr<ExtentHeader> header = DecodeExtentHeader(bytes);

    EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss) << offset;
    EXPECT_NE(header.status().message().find("unit 10"), std::string::npos) << header.status();
  }
}

TEST(ExtentTest, FillsItsLimitAndNoMore) {
  for (const uint64_t limit : {8192u, 65536u, 1048576u}) {
    for (const uint32_t bytes : {512u, 3000u, 4096u, 0u}) {  // 0: direct blocks
      AlignedBuffer buffer(ExtentBuilder::BufferBytes(kExtentBytesMax));
      ExtentBuilder builder(buffer.span(), limit);
      uint64_t unit = 0;
      while (bytes == 0 && builder.FitsBlock()) builder.AddBlock(++unit, 0);
      while (bytes != 0 && builder.Fits(bytes, bytes == 4096)) {
        builder.Add({.unit = ++unit,
                     .stored_bytes = bytes,
                     .stored_mask = 1,
                     .codec = bytes == 4096 ? Compression::kOff : Compression::kLz4,
                     .block_count = 1});
      }
      ASSERT_GT(unit, 0u);
      const ExtentBuilder::Finished extent = builder.Finish({});
      EXPECT_LE(extent.bytes.size(), limit);
      EXPECT_GT(extent.bytes.size() + 8192, limit);
      const absl::StatusOr<ExtentHeader> header = DecodeExtentHeader(extent.bytes);
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_EQ(header->units.size() + header->blocks.size(), unit);
    }
  }
}

}  // namespace
}  // namespace ebb::storage
