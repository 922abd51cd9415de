#include "storage-backend/log/window_reader.h"

#include <cstring>

#include <gtest/gtest.h>

#include "storage-backend/device/device_wrapper.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/log/log_format.h"

namespace ebb::storage {
namespace {

constexpr uint32_t kBlocks = 100;

// Counts reads and fails those that touch one block.
class CountingDevice final : public DeviceWrapper {
 public:
  CountingDevice()
      : DeviceWrapper(std::make_unique<MemDevice>(uint64_t{kBlocks} * kCacheBlockBytes)) {
    AlignedBuffer block(kCacheBlockBytes);
    for (uint32_t i = 0; i < kBlocks; ++i) {
      std::memcpy(block.data(), &i, sizeof i);
      EXPECT_TRUE(inner().Write(uint64_t{i} * kCacheBlockBytes, block.span()).ok());
    }
  }
  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    blocks_read += out.size() / kCacheBlockBytes;
    const uint64_t first = offset / kCacheBlockBytes;
    if (bad_block >= first && bad_block < first + out.size() / kCacheBlockBytes) {
      return absl::DataLossError("bad block");
    }
    return inner().Read(offset, out);
  }
  absl::Status Write(uint64_t, std::span<const std::byte>) override {
    return absl::InternalError("recovery must not write");
  }

  size_t reads = 0;
  size_t blocks_read = 0;
  uint64_t bad_block = UINT64_MAX;
};

uint32_t NumberOf(WindowReader& reader, uint32_t block, uint32_t until) {
  const auto bytes = reader.At(block, until);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  uint32_t number = UINT32_MAX;
  if (bytes.ok()) std::memcpy(&number, bytes->data(), sizeof number);
  return number;
}

TEST(WindowReaderTest, AScanReadsEachBlockOnceInWindows) {
  CountingDevice device;
  WindowReader reader(device, 8);

  for (uint32_t block = 3; block < 90; ++block) EXPECT_EQ(NumberOf(reader, block, 90), block);

  EXPECT_EQ(device.blocks_read, 87U);
  EXPECT_EQ(device.reads, 11U);
}

TEST(WindowReaderTest, GoesOnToTheRangeThatFollows) {
  CountingDevice device;
  WindowReader reader(device, 4);

  for (uint32_t block = 60; block < 70; ++block) {
    EXPECT_TRUE(reader.At(block, 70, {.first = 10, .until = 30}).ok());
  }
  const size_t before = device.reads;
  for (uint32_t block = 10; block < 18; ++block) EXPECT_EQ(NumberOf(reader, block, 30), block);

  EXPECT_LE(device.reads, before + 3) << "what follows was read only when it was asked for";
  for (uint32_t block = 18; block < 30; ++block) EXPECT_EQ(NumberOf(reader, block, 30), block);
  EXPECT_EQ(device.blocks_read, 30U) << "a block was read twice";
}

TEST(WindowReaderTest, AJumpReadsNoMoreThanItAsksFor) {
  CountingDevice device;
  WindowReader reader(device, 8);

  for (uint32_t block = 0; block < kBlocks; block += 20) {
    EXPECT_EQ(NumberOf(reader, block, block + 1), block);
  }

  EXPECT_EQ(device.blocks_read, 5U);
}

TEST(WindowReaderTest, GoesBackAndStopsAtTheEnd) {
  CountingDevice device;
  WindowReader reader(device, 8);

  EXPECT_EQ(NumberOf(reader, 50, kBlocks), 50U);
  EXPECT_EQ(NumberOf(reader, 2, 4), 2U);
  EXPECT_EQ(NumberOf(reader, 3, 4), 3U);
  EXPECT_EQ(NumberOf(reader, kBlocks - 1, kBlocks), kBlocks - 1);
}

TEST(WindowReaderTest, AnErrorIsToldAndTriedAgainWhenAskedAgain) {
  CountingDevice device;
  WindowReader reader(device, 8);
  device.bad_block = 12;

  EXPECT_EQ(NumberOf(reader, 0, 40), 0U);  // an error ahead of what is asked for tells nobody
  EXPECT_FALSE(reader.At(12, 40).ok());
  device.bad_block = UINT64_MAX;
  EXPECT_EQ(NumberOf(reader, 12, 40), 12U);
}

}  // namespace
}  // namespace ebb::storage
