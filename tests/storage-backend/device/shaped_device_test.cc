#include "storage-backend/device/shaped_device.h"

#include <vector>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage-backend/device/mem_device.h"
#include "tests/storage-backend/device/device_test_util.h"

namespace ebb::storage {
namespace {

std::unique_ptr<ShapedDevice> Make(const ShapeOptions& options, Clock& clock) {
  auto device = ShapedDevice::Make(std::make_unique<MemDevice>(16 * kMiB), options, clock);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(ShapedDeviceTest, SaysThatItIsShaped) {
  ManualClock clock;

  EXPECT_EQ(Make({.model = "disk-7200"}, clock)->Describe(), "memory, 16 MiB, shaped as disk-7200");
  EXPECT_EQ(Make({.model = "nvme", .scale = 20}, clock)->Describe(),
            "memory, 16 MiB, shaped as nvme made 20 times faster");
}

TEST(ShapedDeviceTest, BlockingReadTakesTheModelsTime) {
  ManualClock clock;
  auto device = Make({.model = "nvme"}, clock);
  AlignedBuffer block(4096);
  const uint64_t begin_ns = clock.MonotonicNs();

  ASSERT_TRUE(device->Read(0, block.span()).ok());

  EXPECT_NEAR(static_cast<double>(clock.MonotonicNs() - begin_ns), 80e3, 20e3);
  EXPECT_EQ(device->Overruns().transfers, 1U);
  EXPECT_EQ(device->Overruns().late, 0U);
}

// Goal: queued requests overlap as the model allows: 16 flash reads take little more than one.
TEST(ShapedDeviceTest, QueuedReadsOverlap) {
  ManualClock clock;
  auto device = Make({.model = "nvme"}, clock);
  std::vector<AlignedBuffer> buffers;
  std::vector<Io> ios;
  for (uint64_t i = 0; i < 16; ++i) {
    buffers.emplace_back(4096);
    ios.push_back({.kind = Io::Kind::kRead,
                   .offset = i * 16 * kKiB,
                   .data = buffers.back().data(),
                   .bytes = 4096});
  }
  auto queue = device->MakeQueue(16);
  const uint64_t begin_ns = clock.MonotonicNs();

  for (Io& io : ios) queue->Submit(&io);
  EXPECT_TRUE(queue->Reap(0).empty());
  const size_t reaped = queue->Reap(16).size();

  EXPECT_EQ(reaped, 16U);
  EXPECT_LT(clock.MonotonicNs() - begin_ns, 150'000U);
}

TEST(ShapedDeviceTest, ReapReturnsInOrderOfCompletion) {
  ManualClock clock;
  auto device = Make({.model = "disk-7200"}, clock);
  AlignedBuffer block(4096);
  Io slow{.kind = Io::Kind::kRead, .offset = 8 * kMiB, .data = block.data(), .bytes = 4096};
  Io fast{.kind = Io::Kind::kWrite, .offset = 0, .data = block.data(), .bytes = 4096};
  auto queue = device->MakeQueue(2);

  queue->Submit(&slow);
  queue->Submit(&fast);

  EXPECT_THAT(queue->Reap(1), testing::ElementsAre(&fast));
  EXPECT_THAT(queue->Reap(1), testing::ElementsAre(&slow));
}

TEST(ShapedDeviceTest, ARefusedRequestDoesNotMoveTheModel) {
  ManualClock clock;
  auto device = Make({.model = "disk-7200"}, clock);
  AlignedBuffer block(4096);
  const uint64_t begin_ns = clock.MonotonicNs();

  EXPECT_FALSE(device->Read(64 * kMiB, block.span()).ok());

  EXPECT_EQ(clock.MonotonicNs(), begin_ns);
}

TEST(ShapedDeviceTest, RefusesAnUnknownModel) {
  EXPECT_EQ(
      ShapedDevice::Make(std::make_unique<MemDevice>(kMiB), {.model = "tape"}).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::storage
