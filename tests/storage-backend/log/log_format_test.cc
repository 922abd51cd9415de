#include "storage-backend/log/log_format.h"

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

AlignedBuffer MakeHeader() {
  AlignedBuffer block(kCacheBlockBytes);
  EncodeEntry(block.span(), 0,
              {.kind = EntryKind::kData, .crc32c = 0x12345678, .block = 0xffffffff, .count = 1});
  EncodeEntry(block.span(), 1,
              {.kind = EntryKind::kTrim, .crc32c = 0, .block = 5, .count = uint64_t{1} << 32});
  EncodeHeader(block.span(), {.node_uuid = {1, 2, 3},
                              .epoch = 7,
                              .sequence = 99,
                              .durable_sequence = 98,
                              .header_block = 1234,
                              .payload_blocks = 1,
                              .entry_count = 2});
  return block;
}

TEST(LogFormatTest, HeaderAndEntriesComeBack) {
  AlignedBuffer block = MakeHeader();

  const auto header = DecodeHeader(block.span());

  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->epoch, 7U);
  EXPECT_EQ(header->sequence, 99U);
  EXPECT_EQ(header->durable_sequence, 98U);
  EXPECT_EQ(header->header_block, 1234U);
  EXPECT_EQ(header->node_uuid, (Uuid{1, 2, 3}));
  const LogEntry data = DecodeEntry(block.span(), 0);
  EXPECT_EQ(data.kind, EntryKind::kData);
  EXPECT_EQ(data.crc32c, 0x12345678U);
  EXPECT_EQ(data.block, 0xffffffffU);
  const LogEntry trim = DecodeEntry(block.span(), 1);
  EXPECT_EQ(trim.kind, EntryKind::kTrim);
  EXPECT_EQ(trim.count, uint64_t{1} << 32);
}

TEST(LogFormatTest, EveryFlippedByteIsDetected) {
  AlignedBuffer block = MakeHeader();
  for (size_t i = 0; i < kCacheBlockBytes; ++i) {
    block.data()[i] ^= std::byte{0x10};
    EXPECT_FALSE(DecodeHeader(block.span()).ok()) << "byte " << i;
    block.data()[i] ^= std::byte{0x10};
  }
  EXPECT_TRUE(DecodeHeader(block.span()).ok());
}

TEST(LogFormatTest, CountsThatContradictTheEntriesAreRefused) {
  AlignedBuffer block = MakeHeader();
  EncodeHeader(block.span(), {.sequence = 1, .payload_blocks = 2, .entry_count = 2});

  EXPECT_FALSE(DecodeHeader(block.span()).ok());
}

TEST(LogFormatTest, GeometryFollowsTheDevice) {
  EXPECT_EQ(ChooseGeometry(kGiB, 0)->segment_blocks, 16 * kMiB / 4096);
  EXPECT_EQ(ChooseGeometry(64 * kMiB, 0)->segment_blocks, kMiB / 4096);
  EXPECT_EQ(ChooseGeometry(4 * kMiB, 0)->segment_blocks, 256 * kKiB / 4096);
  EXPECT_FALSE(ChooseGeometry(kMiB, 0).ok());
  EXPECT_FALSE(ChooseGeometry(kGiB, 5000).ok());
  const auto small = ChooseGeometry((2 + 8 * 4) * 4096, 16 * kKiB);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->segment_count, 8U);
  EXPECT_EQ(small->end_block(), 33U);
  EXPECT_EQ(small->SegmentOf(small->FirstBlock(3)), 3U);
  EXPECT_EQ(small->SegmentOf(small->FirstBlock(3) + 3), 3U);
}

}  // namespace
}  // namespace ebb::storage
