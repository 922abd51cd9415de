#include "storage-backend/device/superblock.h"

#include <cstring>
#include <string_view>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/device/mem_device.h"
#include "tests/storage-backend/device/device_test_util.h"

namespace ebb::storage {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kDeviceBytes = kMiB;
constexpr uint64_t kLastCopy = kDeviceBytes - kSuperblockBytes;

Superblock Sample() {
  Superblock superblock;
  superblock.node_uuid = MakeUuid();
  superblock.device_uuid = MakeUuid();
  superblock.role = Superblock::Role::kCapacity;
  superblock.device_index = 2;
  superblock.capacity_device_count = 3;
  superblock.device_bytes = kDeviceBytes;
  superblock.segment_bytes = 64 * kKiB;
  superblock.epoch = 17;
  superblock.dirty_bytes = 12345;
  superblock.clean_shutdown = true;
  return superblock;
}

void Poke(Device& device, uint64_t offset, std::string_view bytes) {
  const uint64_t block_offset = offset / 4096 * 4096;
  AlignedBuffer block(4096);
  ASSERT_TRUE(device.Read(block_offset, block.span()).ok());
  std::memcpy(block.data() + offset % 4096, bytes.data(), bytes.size());
  ASSERT_TRUE(device.Write(block_offset, block.span()).ok());
}

void FlipByte(Device& device, uint64_t offset, uint8_t mask) {
  const uint64_t block_offset = offset / 4096 * 4096;
  AlignedBuffer block(4096);
  ASSERT_TRUE(device.Read(block_offset, block.span()).ok());
  block.data()[offset % 4096] ^= static_cast<std::byte>(mask);
  ASSERT_TRUE(device.Write(block_offset, block.span()).ok());
}

void Zero(Device& device, uint64_t offset) {
  AlignedBuffer block(4096);
  ASSERT_TRUE(device.Write(offset, block.span()).ok());
}

TEST(SuperblockTest, BlankDeviceIsBlank) {
  MemDevice device(kDeviceBytes);

  const auto reading = ReadSuperblock(device);

  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_TRUE(reading->blank);
}

TEST(SuperblockTest, ReadsBackWhatWasWritten) {
  MemDevice device(kDeviceBytes);
  const Superblock superblock = Sample();
  ASSERT_TRUE(WriteSuperblock(device, superblock).ok());

  const auto reading = ReadSuperblock(device);

  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_FALSE(reading->blank);
  EXPECT_EQ(reading->superblock, superblock);
  EXPECT_THAT(reading->damage, IsEmpty());
}

// Goal: no single damaged byte of a copy goes unnoticed, and the other copy stands in.
TEST(SuperblockTest, EveryFlippedByteIsDetectedAndTheOtherCopyUsed) {
  MemDevice device(kDeviceBytes);
  const Superblock superblock = Sample();
  ASSERT_TRUE(WriteSuperblock(device, superblock).ok());
  Rng rng(1);

  for (const uint64_t copy : {uint64_t{0}, kLastCopy}) {
    for (uint64_t at = 0; at < kSuperblockBytes; ++at) {
      const auto mask = static_cast<uint8_t>(1 + rng.Below(255));
      FlipByte(device, copy + at, mask);

      const auto reading = ReadSuperblock(device);

      ASSERT_TRUE(reading.ok()) << reading.status() << " at " << at;
      ASSERT_EQ(reading->superblock, superblock) << at;
      ASSERT_THAT(reading->damage, HasSubstr(copy == 0 ? "first copy" : "last copy")) << at;
      FlipByte(device, copy + at, mask);
    }
  }
}

TEST(SuperblockTest, BothCopiesDamagedIsDataLoss) {
  MemDevice device(kDeviceBytes);
  ASSERT_TRUE(WriteSuperblock(device, Sample()).ok());
  FlipByte(device, 100, 1);
  FlipByte(device, kLastCopy + 200, 1);

  const absl::Status status = ReadSuperblock(device).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("both copies of the superblock are damaged"));
}

TEST(SuperblockTest, AZeroedCopyIsDamageNotBlank) {
  MemDevice device(kDeviceBytes);
  ASSERT_TRUE(WriteSuperblock(device, Sample()).ok());
  Zero(device, 0);

  const auto reading = ReadSuperblock(device);

  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_FALSE(reading->blank);
  EXPECT_THAT(reading->damage, HasSubstr("first copy is all zero"));
}

// Goal: data of others is never taken for blank, also where its mark is away from the first block.
TEST(SuperblockTest, ForeignDataIsRefusedAndNamed) {
  struct Case {
    uint64_t offset;
    std::string_view bytes;
    const char* word;
  };
  for (const Case& c : {Case{1080, "\x53\xef", "ext4"}, Case{65600, "_BHRfS_M", "Btrfs"},
                        Case{0, "XFSB", "XFS"}, Case{300, "x", "foreign"},
                        Case{kLastCopy, "EFI PART", "foreign"}, Case{100000, "y", "foreign"}}) {
    MemDevice device(kDeviceBytes);
    Poke(device, c.offset, c.bytes);

    const absl::Status status = ReadSuperblock(device).status();

    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << c.word;
    EXPECT_THAT(status.message(), HasSubstr(c.word));
  }
}

// Method: a node's device copied onto a smaller and a larger one.
TEST(SuperblockTest, AnotherSizeIsToldWithBothSizes) {
  MemDevice device(kDeviceBytes);
  ASSERT_TRUE(WriteSuperblock(device, Sample()).ok());
  AlignedBuffer copy(4096);
  ASSERT_TRUE(device.Read(0, copy.span()).ok());
  MemDevice smaller(kDeviceBytes / 2);
  MemDevice larger(kDeviceBytes * 2);
  ASSERT_TRUE(smaller.Write(0, copy.span()).ok());
  ASSERT_TRUE(larger.Write(0, copy.span()).ok());

  const absl::Status truncated = ReadSuperblock(smaller).status();
  const absl::Status grown = ReadSuperblock(larger).status();

  EXPECT_EQ(truncated.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(truncated.message(), HasSubstr("is truncated: it has 524288 bytes and had 1048576"));
  EXPECT_EQ(grown.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(grown.message(), HasSubstr("has grown"));
}

TEST(SuperblockTest, TheNewerCopyWinsAfterACrashBetweenTheTwo) {
  MemDevice device(kDeviceBytes);
  Superblock superblock = Sample();
  ASSERT_TRUE(WriteSuperblock(device, superblock).ok());
  AlignedBuffer old_copy(4096);
  ASSERT_TRUE(device.Read(kLastCopy, old_copy.span()).ok());
  ++superblock.epoch;
  ASSERT_TRUE(WriteSuperblock(device, superblock).ok());
  ASSERT_TRUE(device.Write(kLastCopy, old_copy.span()).ok());

  const auto reading = ReadSuperblock(device);

  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_EQ(reading->superblock.epoch, superblock.epoch);
}

TEST(SuperblockTest, RefusesToWriteAnotherSize) {
  MemDevice device(kDeviceBytes);
  Superblock superblock = Sample();
  superblock.device_bytes += 4096;

  EXPECT_EQ(WriteSuperblock(device, superblock).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SuperblockTest, UuidsAreDistinctAndReadable) {
  const Uuid uuid = MakeUuid();

  EXPECT_NE(uuid, MakeUuid());
  EXPECT_THAT(FormatUuid(uuid), testing::MatchesRegex("[0-9a-f]+-[0-9a-f]+-4[0-9a-f]+-.*"));
  EXPECT_EQ(FormatUuid(uuid).size(), 36U);
}

}  // namespace
}  // namespace ebb::storage
