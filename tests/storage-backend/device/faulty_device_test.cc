#include "storage-backend/device/faulty_device.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/storage-backend/device/device_test_util.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kDiskBytes = 256 * kKiB;
constexpr uint64_t kBlock = 4096;
constexpr uint64_t kSector = 512;

AlignedBuffer BlockOf(char content, size_t bytes = kBlock) {
  AlignedBuffer block(bytes);
  std::ranges::fill(block.span(), static_cast<std::byte>(content));
  return block;
}

std::span<const std::byte> View(const AlignedBuffer& buffer) {
  return {buffer.data(), buffer.size()};
}

// The content at `offset`, one character for each sector of a block.
std::string Sectors(Device& device, uint64_t offset) {
  AlignedBuffer block(kBlock);
  EXPECT_TRUE(device.Read(offset, block.span()).ok());
  std::string text;
  for (uint64_t at = 0; at < kBlock; at += kSector) {
    const char first = static_cast<char>(block.data()[at]);
    for (uint64_t i = 0; i < kSector; ++i)
      EXPECT_EQ(static_cast<char>(block.data()[at + i]), first);
    text += first == 0 ? '.' : first;
  }
  return text;
}

class FaultyDiskTest : public testing::Test {
 protected:
  std::shared_ptr<FaultyDisk> disk_ = FaultyDisk::Make({.size_bytes = kDiskBytes});
  std::unique_ptr<Device> device_ = disk_->Open();

  absl::Status Write(uint64_t offset, char content) {
    return device_->Write(offset, View(BlockOf(content)));
  }
  std::unique_ptr<Device> Reboot(uint64_t seed) {
    disk_->power()->Restore();
    disk_->Reboot(seed);
    return disk_->Open();
  }
};

TEST_F(FaultyDiskTest, FlushedWritesSurviveEverySeed) {
  ASSERT_TRUE(Write(0, 'A').ok());
  ASSERT_TRUE(device_->Flush().ok());

  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(Sectors(*Reboot(seed), 0), "AAAAAAAA") << seed;
  }
}

// Goal: an un-flushed write is kept in some runs, dropped in some, torn in some.
TEST_F(FaultyDiskTest, UnflushedWriteHasEveryFate) {
  std::set<std::string> fates;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    auto disk = FaultyDisk::Make({.size_bytes = kDiskBytes});
    ASSERT_TRUE(disk->Open()->Write(0, View(BlockOf('A'))).ok());

    disk->Reboot(seed);

    fates.insert(Sectors(*disk->Open(), 0));
  }

  EXPECT_TRUE(fates.contains("AAAAAAAA"));
  EXPECT_TRUE(fates.contains("........"));
  EXPECT_GT(fates.size(), 20U);
}

// Goal: of two writes that no flush separates the later may survive without the earlier.
TEST_F(FaultyDiskTest, UnflushedWritesSurviveInAnyOrder) {
  std::set<std::pair<bool, bool>> outcomes;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    auto disk = FaultyDisk::Make({.size_bytes = kDiskBytes});
    auto device = disk->Open();
    ASSERT_TRUE(device->Write(0, View(BlockOf('A'))).ok());
    ASSERT_TRUE(device->Write(kBlock, View(BlockOf('B'))).ok());

    disk->Reboot(seed);

    auto after = disk->Open();
    outcomes.insert({Sectors(*after, 0) == "AAAAAAAA", Sectors(*after, kBlock) == "BBBBBBBB"});
  }

  EXPECT_EQ(outcomes.size(), 4U);
}

TEST_F(FaultyDiskTest, PowerFailsAtTheGivenWrite) {
  disk_->power()->CutAtWrite(2);
  ASSERT_TRUE(Write(0, 'A').ok());
  ASSERT_TRUE(device_->Flush().ok());

  EXPECT_EQ(Write(kBlock, 'B').code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device_->Flush().code(), absl::StatusCode::kUnavailable);
  AlignedBuffer block(kBlock);
  EXPECT_EQ(device_->Read(0, block.span()).code(), absl::StatusCode::kUnavailable);

  auto after = Reboot(3);
  EXPECT_EQ(Sectors(*after, 0), "AAAAAAAA");
  EXPECT_EQ(device_->Read(0, block.span()).code(), absl::StatusCode::kUnavailable)
      << "the old handle must stay dead";
}

TEST_F(FaultyDiskTest, DisksOfOneNodeLosePowerTogether) {
  auto power = std::make_shared<PowerSource>();
  auto cache = FaultyDisk::Make({.name = "cache", .size_bytes = kDiskBytes, .power = power});
  auto capacity = FaultyDisk::Make({.name = "capacity", .size_bytes = kDiskBytes, .power = power});
  auto cache_device = cache->Open();
  auto capacity_device = capacity->Open();
  power->CutAtWrite(3);

  EXPECT_TRUE(cache_device->Write(0, View(BlockOf('A'))).ok());
  EXPECT_TRUE(capacity_device->Write(0, View(BlockOf('B'))).ok());
  EXPECT_FALSE(cache_device->Write(0, View(BlockOf('C'))).ok());
  EXPECT_EQ(capacity_device->Flush().code(), absl::StatusCode::kUnavailable);
}

TEST_F(FaultyDiskTest, FailsTheNthTransferOnly) {
  disk_->FailNth(Io::Kind::kWrite, 2, FaultyDisk::Fault::kNoSpace);
  disk_->FailNth(Io::Kind::kRead, 1, FaultyDisk::Fault::kIoError);
  AlignedBuffer block(kBlock);

  EXPECT_TRUE(Write(0, 'A').ok());
  EXPECT_EQ(Write(0, 'B').code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->Read(0, block.span()).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Sectors(*device_, 0), "AAAAAAAA");
  EXPECT_TRUE(Write(0, 'C').ok());
  EXPECT_EQ(disk_->counts().faults, 2U);
}

TEST_F(FaultyDiskTest, ShortWriteLeavesItsFirstHalf) {
  disk_->FailNth(Io::Kind::kWrite, 1, FaultyDisk::Fault::kShort);

  EXPECT_EQ(Write(0, 'A').code(), absl::StatusCode::kInternal);

  EXPECT_EQ(Sectors(*device_, 0), "AAAA....");
}

TEST_F(FaultyDiskTest, FailedFlushFencesUntilReboot) {
  disk_->FailNth(Io::Kind::kFlush, 1, FaultyDisk::Fault::kIoError);
  ASSERT_TRUE(Write(0, 'A').ok());

  EXPECT_EQ(device_->Flush().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(device_->Flush().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Write(0, 'B').code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Sectors(*device_, 0), "AAAAAAAA");

  device_ = Reboot(1);
  EXPECT_TRUE(Write(0, 'C').ok());
  EXPECT_TRUE(device_->Flush().ok());
}

TEST_F(FaultyDiskTest, FlippedBitsStay) {
  ASSERT_TRUE(Write(0, 'A').ok());
  ASSERT_TRUE(device_->Flush().ok());

  disk_->FlipBits(7, 0x03);

  AlignedBuffer block(kBlock);
  ASSERT_TRUE(device_->Read(0, block.span()).ok());
  EXPECT_EQ(static_cast<char>(block.data()[7]), 'A' ^ 0x03);
  ASSERT_TRUE(Reboot(1)->Read(0, block.span()).ok());
  EXPECT_EQ(static_cast<char>(block.data()[7]), 'A' ^ 0x03);
}

// Runs a seeded mix of blocking and queued transfers with a fault in it; returns the log hash.
uint64_t RunMix(uint64_t seed) {
  auto disk = FaultyDisk::Make({.size_bytes = kDiskBytes, .seed = seed});
  auto device = disk->Open();
  disk->FailNth(Io::Kind::kWrite, 20, FaultyDisk::Fault::kIoError);
  Rng rng(seed);
  auto queue = device->MakeQueue(4);
  for (int round = 0; round < 20; ++round) {
    std::array<Io, 4> ios;
    std::vector<AlignedBuffer> buffers;
    for (Io& io : ios) {
      buffers.push_back(Noise(kBlock, rng.Next()));
      io.kind = rng.Chance(0.7) ? Io::Kind::kWrite : Io::Kind::kRead;
      io.offset = rng.Below(kDiskBytes / kBlock) * kBlock;
      io.data = buffers.back().data();
      io.bytes = kBlock;
      queue->Submit(&io);
    }
    while (queue->in_flight() > 0) queue->Reap(1);
    if (rng.Chance(0.3)) {
      EXPECT_TRUE(device->Flush().ok());
    }
  }
  return disk->log_hash();
}

TEST_F(FaultyDiskTest, SameSeedSameLog) {
  EXPECT_EQ(RunMix(1), RunMix(1));
  EXPECT_NE(RunMix(1), RunMix(2));
}

TEST_F(FaultyDiskTest, ALostDeviceDoesNothingAnyMore) {
  ASSERT_TRUE(Write(0, 'A').ok());
  ASSERT_TRUE(device_->Flush().ok());
  disk_->LoseAfter(1);
  EXPECT_EQ(Sectors(*device_, 0), "AAAAAAAA") << "one more transfer";

  AlignedBuffer block(kBlock);
  EXPECT_FALSE(device_->Read(0, block.span()).ok());
  EXPECT_FALSE(Write(0, 'B').ok());
  EXPECT_FALSE(device_->Flush().ok());

  EXPECT_EQ(disk_->counts().faults, 3U);
  EXPECT_EQ(Sectors(*Reboot(1), 0), "AAAAAAAA");
}

TEST_F(FaultyDiskTest, DiscardsAreNotUnflushedData) {
  ASSERT_TRUE(device_->Discard(0, kBlock).ok());
  EXPECT_EQ(disk_->unflushed_writes(), 0U);
  ASSERT_TRUE(Write(kBlock, 'A').ok());
  EXPECT_EQ(disk_->unflushed_writes(), 1U);
}

// Writes and reads that cross from what was written into what never was, at every sector.
TEST(SparseImageTest, BehavesAsAnArrayOfBytes) {
  constexpr uint64_t kBytes = 100 * kKiB;
  SparseImage image(kBytes);
  std::vector<std::byte> model(kBytes);
  Rng rng(7);
  for (int step = 0; step < 2000; ++step) {
    const uint64_t offset = rng.Below(kBytes);
    const uint64_t bytes = std::min(kBytes - offset, 1 + rng.Below(step < 5 ? 100 : 40'000));
    if (rng.Chance(0.3)) {
      const AlignedBuffer data = Noise(bytes, rng.Next());
      image.Write(offset, View(data).first(bytes));
      std::copy_n(data.data(), bytes, model.data() + offset);
    }
    std::vector<std::byte> read(bytes, std::byte{0xee});
    image.Read(offset, read);
    ASSERT_TRUE(std::equal(read.begin(), read.end(), model.begin() + static_cast<long>(offset)));
  }
}

}  // namespace
}  // namespace ebb::storage
