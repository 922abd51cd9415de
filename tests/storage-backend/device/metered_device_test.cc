#include "storage-backend/device/metered_device.h"

#include <array>

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "storage-backend/device/faulty_device.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlock = 4096;

class MeteredDeviceTest : public ::testing::Test {
 protected:
  std::shared_ptr<FaultyDisk> disk_ = FaultyDisk::Make({.name = "d", .size_bytes = 64 * kBlock});
  MeteredDevice device_{disk_->Open()};
  AlignedBuffer data_{kBlock};
};

TEST_F(MeteredDeviceTest, CountsByKindAndTellsErrors) {
  ASSERT_TRUE(device_.Write(0, data_.span()).ok());
  ASSERT_TRUE(device_.Write(kBlock, data_.span()).ok());
  ASSERT_TRUE(device_.Read(0, data_.span()).ok());
  ASSERT_TRUE(device_.Flush().ok());
  EXPECT_TRUE(device_.last_error().ok());
  disk_->FailNth(Io::Kind::kRead, 1, FaultyDisk::Fault::kIoError);

  const absl::Status failed = device_.Read(0, data_.span());

  EXPECT_EQ(device_.last_error(), failed);
  EXPECT_FALSE(failed.ok());
  const MeteredDevice::Reading reading = device_.reading();
  EXPECT_EQ(reading.reads, 2U);
  EXPECT_EQ(reading.writes, 2U);
  EXPECT_EQ(reading.flushes, 1U);
  EXPECT_EQ(reading.errors, 1U);
  EXPECT_EQ(reading.done(), 5U);
  EXPECT_EQ(reading.in_flight, 0U);
}

TEST_F(MeteredDeviceTest, QueuedTransfersAreInFlightUntilTheyAreHandedBack) {
  std::array<Io, 3> ios;
  std::array<Io*, 3> pointers;
  for (size_t i = 0; i < ios.size(); ++i) {
    ios[i] = {.kind = Io::Kind::kRead, .offset = i * kBlock, .data = data_.data(), .bytes = kBlock};
    pointers[i] = &ios[i];
  }
  auto queue = device_.MakeQueue(8);

  queue->Submit(pointers[0]);
  EXPECT_EQ(device_.reading().in_flight, 1U);
  queue->SubmitAll(std::span(pointers).subspan(1));
  EXPECT_EQ(device_.reading().in_flight, 3U);
  size_t reaped = 0;
  while (reaped < 3) reaped += queue->Reap(1).size();
  EXPECT_EQ(device_.reading().in_flight, 0U);
  EXPECT_EQ(device_.reading().reads, 3U);

  queue->Submit(pointers[0]);
  queue = nullptr;
  EXPECT_EQ(device_.reading().in_flight, 0U);
}

}  // namespace
}  // namespace ebb::storage
