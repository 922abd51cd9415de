// What every Device promises, run on every implementation.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/device/faulty_device.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/device/metered_device.h"
#include "storage-backend/device/shaped_device.h"
#include "storage-backend/device/uring_device.h"
#include "tests/storage-backend/device/device_test_util.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kDeviceBytes = 4 * kMiB;
constexpr uint64_t kBlock = 4096;

// A device and what it stands on.
struct Fixture {
  std::unique_ptr<ScratchFolder> folder;
  std::unique_ptr<Device> device;
};

struct Implementation {
  const char* name;
  std::function<Fixture()> make;
};

Fixture MakeUring(const std::string& parent) {
  Fixture fixture;
  fixture.folder = std::make_unique<ScratchFolder>(parent);
  const std::string path = fixture.folder->File("disk.img");
  EBB_CHECK(CreateDeviceFile(path, kDeviceBytes).ok());
  auto device = UringDevice::Open(path, kDeviceBytes);
  EBB_CHECK(device.ok());
  fixture.device = *std::move(device);
  return fixture;
}

const std::vector<Implementation>& Implementations() {
  static const std::vector<Implementation> all = {
      {"Mem",
       [] {
         return Fixture{nullptr, std::make_unique<MemDevice>(kDeviceBytes)};
       }},
      {"Faulty",
       [] {
         return Fixture{nullptr, FaultyDisk::Make({.size_bytes = kDeviceBytes})->Open()};
       }},
      {"ShapedMem",
       [] {
         auto shaped = ShapedDevice::Make(std::make_unique<MemDevice>(kDeviceBytes),
                                          {.model = "nvme", .scale = 10});
         EBB_CHECK(shaped.ok());
         return Fixture{nullptr, *std::move(shaped)};
       }},
      {"MeteredMem",
       [] {
         return Fixture{nullptr,
                        std::make_unique<MeteredDevice>(std::make_unique<MemDevice>(kDeviceBytes))};
       }},
      {"UringOnDisk", [] { return MakeUring("/tmp"); }},
      {"UringOnTmpfs", [] { return MakeUring("/dev/shm"); }},
  };
  return all;
}

class DeviceContract : public testing::TestWithParam<Implementation> {
 protected:
  DeviceContract() : fixture_(GetParam().make()), device_(*fixture_.device) {}

  void ExpectContent(uint64_t offset, const AlignedBuffer& expected) {
    AlignedBuffer got(expected.size());
    ASSERT_TRUE(device_.Read(offset, got.span()).ok());
    EXPECT_TRUE(std::ranges::equal(got.span(),
                                   std::span<const std::byte>(expected.data(), expected.size())));
  }

  Fixture fixture_;
  Device& device_;
};

INSTANTIATE_TEST_SUITE_P(All, DeviceContract, testing::ValuesIn(Implementations()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(DeviceContract, HasTheSizeItWasMadeWith) {
  EXPECT_EQ(device_.size_bytes(), kDeviceBytes);
  EXPECT_EQ(device_.block_bytes(), kBlock);
  EXPECT_FALSE(device_.Describe().empty());
}

TEST_P(DeviceContract, BeginsAsZeroes) { ExpectContent(0, AlignedBuffer(kDeviceBytes)); }

TEST_P(DeviceContract, ReadsBackWhatWasWritten) {
  const AlignedBuffer small = Noise(kBlock, 1);
  const AlignedBuffer large = Noise(1 * kMiB, 2);

  ASSERT_TRUE(device_.Write(3 * kBlock, {small.data(), small.size()}).ok());
  ASSERT_TRUE(device_.Write(kDeviceBytes - large.size(), {large.data(), large.size()}).ok());
  ASSERT_TRUE(device_.Flush().ok());

  ExpectContent(3 * kBlock, small);
  ExpectContent(kDeviceBytes - large.size(), large);
  ExpectContent(2 * kBlock, AlignedBuffer(kBlock));
}

TEST_P(DeviceContract, RefusesWhatLiesBeyondTheEnd) {
  AlignedBuffer block(2 * kBlock);

  EXPECT_EQ(device_.Read(kDeviceBytes - kBlock, block.span()).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(device_.Write(kDeviceBytes, block.span()).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(device_.Write(~uint64_t{0} - 4095, block.span()).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(device_.Discard(0, kDeviceBytes + kBlock).code(), absl::StatusCode::kOutOfRange);
}

TEST_P(DeviceContract, RefusesWhatIsNotAligned) {
  AlignedBuffer block(2 * kBlock);

  EXPECT_EQ(device_.Read(512, block.span()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_.Read(0, block.span(0, 100)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_.Write(0, block.span(8, kBlock)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DeviceContract, DiscardLeavesTheNeighboursAlone) {
  const AlignedBuffer noise = Noise(3 * kBlock, 3);
  ASSERT_TRUE(device_.Write(0, {noise.data(), noise.size()}).ok());

  ASSERT_TRUE(device_.Discard(kBlock, kBlock).ok());

  AlignedBuffer got(3 * kBlock);
  ASSERT_TRUE(device_.Read(0, got.span()).ok());
  EXPECT_TRUE(std::equal(got.data(), got.data() + kBlock, noise.data()));
  EXPECT_TRUE(
      std::equal(got.data() + 2 * kBlock, got.data() + 3 * kBlock, noise.data() + 2 * kBlock));
}

TEST_P(DeviceContract, SaysHowMuchItOccupies) {
  const absl::StatusOr<uint64_t> bytes = device_.AllocatedBytes();

  ASSERT_TRUE(bytes.ok());
  EXPECT_LE(*bytes, kDeviceBytes + kMiB);
}

TEST_P(DeviceContract, QueueHandsBackEveryTransferOnce) {
  constexpr size_t kDepth = 16;
  auto queue = device_.MakeQueue(kDepth);
  ASSERT_EQ(queue->depth(), kDepth);
  std::vector<AlignedBuffer> buffers;
  buffers.reserve(kDepth);
  std::array<Io, kDepth> ios;
  std::vector<Io*> all;
  for (size_t i = 0; i < kDepth; ++i) {
    buffers.push_back(Noise(2 * kBlock, i));
    ios[i] = {.kind = Io::Kind::kWrite,
              .offset = i * 64 * kKiB,
              .data = buffers[i].data(),
              .bytes = buffers[i].size(),
              .context = &buffers[i],
              .status = absl::OkStatus()};
    all.push_back(&ios[i]);
  }

  queue->SubmitAll(std::span(all).first(kDepth / 2));
  for (size_t i = kDepth / 2; i < kDepth; ++i) queue->Submit(all[i]);
  EXPECT_EQ(queue->in_flight(), kDepth);
  std::vector<Io*> reaped;
  while (queue->in_flight() > 0) {
    for (Io* io : queue->Reap(1)) reaped.push_back(io);
  }

  EXPECT_THAT(reaped, testing::UnorderedElementsAreArray(all));
  for (size_t i = 0; i < kDepth; ++i) {
    EXPECT_TRUE(ios[i].status.ok()) << ios[i].status;
    EXPECT_EQ(ios[i].context, &buffers[i]);
    ExpectContent(ios[i].offset, buffers[i]);
  }
}

TEST_P(DeviceContract, QueueReadsAndFlushes) {
  const AlignedBuffer noise = Noise(8 * kBlock, 9);
  ASSERT_TRUE(device_.Write(kMiB, {noise.data(), noise.size()}).ok());
  AlignedBuffer got(noise.size());
  Io read{.kind = Io::Kind::kRead, .offset = kMiB, .data = got.data(), .bytes = got.size()};
  Io flush{.kind = Io::Kind::kFlush};
  auto queue = device_.MakeQueue(4);

  queue->Submit(&read);
  queue->Submit(&flush);
  const std::vector<Io*> reaped = queue->Reap(2);

  EXPECT_EQ(reaped.size(), 2U);
  EXPECT_TRUE(read.status.ok()) << read.status;
  EXPECT_TRUE(flush.status.ok()) << flush.status;
  EXPECT_TRUE(std::equal(got.data(), got.data() + got.size(), noise.data()));
}

// Goal: a queue that was told of memory serves transfers inside, outside and across its end alike.
TEST_P(DeviceContract, RegisteredMemoryIsOnlyAHint) {
  AlignedBuffer memory(8 * kBlock);
  const auto queue = device_.MakeQueue(4);
  queue->RegisterMemory(memory.span(2 * kBlock, 4 * kBlock));
  for (size_t i = 0; i < memory.size(); ++i) memory.data()[i] = static_cast<std::byte>(i / kBlock);
  for (const size_t first : {0, 1, 3, 5, 6}) {
    Io write = {.kind = Io::Kind::kWrite,
                .offset = first * 16 * kBlock,
                .data = memory.data() + first * kBlock,
                .bytes = 2 * kBlock};
    queue->Submit(&write);
    queue->Reap(1);
    ASSERT_TRUE(write.status.ok()) << write.status;
    AlignedBuffer expected(2 * kBlock);
    std::ranges::copy(memory.span(first * kBlock, 2 * kBlock), expected.data());
    ExpectContent(first * 16 * kBlock, expected);
  }

  Io read = {.kind = Io::Kind::kRead,
             .offset = 0,
             .data = memory.data() + 3 * kBlock,
             .bytes = 2 * kBlock};
  queue->Submit(&read);
  queue->Reap(1);

  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(memory.data()[3 * kBlock], std::byte{0});
  EXPECT_EQ(memory.data()[4 * kBlock], std::byte{1});
}

TEST_P(DeviceContract, QueueReportsABadTransferByItsStatus) {
  AlignedBuffer block(kBlock);
  Io beyond{
      .kind = Io::Kind::kRead, .offset = kDeviceBytes, .data = block.data(), .bytes = block.size()};
  Io good{.kind = Io::Kind::kRead, .offset = 0, .data = block.data(), .bytes = block.size()};
  auto queue = device_.MakeQueue(2);

  queue->Submit(&beyond);
  queue->Submit(&good);
  queue->Reap(2);

  EXPECT_EQ(beyond.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(good.status.ok()) << good.status;
}

TEST_P(DeviceContract, ReapOfNothingReturnsAtOnce) {
  EXPECT_TRUE(device_.MakeQueue(1)->Reap(0).empty());
}

TEST_P(DeviceContract, QueueMayBeDroppedWithTransfersInFlight) {
  AlignedBuffer noise = Noise(kMiB, 4);
  Io write{.kind = Io::Kind::kWrite, .offset = 0, .data = noise.data(), .bytes = noise.size()};

  {
    auto queue = device_.MakeQueue(1);
    queue->Submit(&write);
  }

  EXPECT_TRUE(device_.Flush().ok());
}

}  // namespace
}  // namespace ebb::storage
