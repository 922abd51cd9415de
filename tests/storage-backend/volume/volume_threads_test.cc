// Many threads at once, with the background running: also for the thread sanitizer.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

// Goal: each thread reads back its own last write, whatever the others, the destager and changes of
// knobs do. Method: a region a thread; versions rise.
TEST(VolumeThreadsTest, EachThreadReadsItsOwnWrites) {
  constexpr int kThreads = 8;
  constexpr uint64_t kRegionBlocks = 128;
  constexpr int kSteps = 1500;
  TestNode node({.volume_bytes = kThreads * kRegionBlocks * kBlockBytes,
                 .cache_bytes = (2 + 32 * 16) * kBlockBytes,
                 .segment_bytes = 16 * kBlockBytes,
                 .fake_tier = true,
                 .background_threads = true},
                RealClock());
  ASSERT_TRUE(node.Open().ok());
  Volume& volume = node.volume();
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};

  const auto client = [&](uint64_t number) {
    Rng rng(number + 1);
    std::vector<uint64_t> model(kRegionBlocks, 0);
    std::vector<std::byte> data(kBlockBytes);
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t index = rng.Below(kRegionBlocks);
      const uint64_t block = number * kRegionBlocks + index;
      const uint64_t offset = block * kBlockBytes;
      const uint64_t action = rng.Below(20);
      absl::Status status;
      if (action < 10) {
        model[index] = static_cast<uint64_t>(step) + 1;
        status = volume.Write(offset, MakeBlock(block, model[index]).span(), action == 0);
      } else if (action < 18) {
        status = volume.Read(offset, data);
        if (status.ok() && VersionOf(block, data) != model[index]) ++failures;
      } else if (action == 18) {
        model[index] = 0;
        status = volume.Trim(offset, kBlockBytes, false);
      } else if (rng.Chance(0.2)) {
        status = volume.Flush();
      }
      if (!status.ok()) ++failures;
    }
  };
  std::thread tuner([&] {
    Rng rng(99);
    while (!done) {
      Setting setting;
      setting.Set(KnobId::kNvmeReadShare, static_cast<int64_t>(rng.Below(19)) * 5);
      setting.Set(KnobId::kReadCacheBytes, static_cast<int64_t>(rng.Below(4)) << 20);
      setting.Set(KnobId::kReadPolicy, static_cast<int64_t>(rng.Below(2)));
      setting.Set(KnobId::kFlushGroupUs, static_cast<int64_t>(rng.Below(3)) * 100);
      setting.Set(KnobId::kDestageWatermark, 5 + static_cast<int64_t>(rng.Below(80)));
      if (!volume.Apply(setting).ok()) ++failures;
      const VolumeMetrics metrics = volume.Metrics();
      if (metrics.dirty_bytes + metrics.clean_bytes + metrics.free_bytes !=
          metrics.cache_space_bytes) {
        ++failures;
      }
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(client, i);
  for (std::thread& thread : threads) thread.join();
  done = true;
  tuner.join();

  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(volume.Drain(nullptr).ok());
  EXPECT_TRUE(volume.Close().ok());
}

// Goal: partial writes of one block by many threads are all kept. Method: each thread owns some
// bytes of the same block.
TEST(VolumeThreadsTest, PartialWritesOfOneBlockAreNotLost) {
  constexpr uint64_t kThreads = 4;
  TestNode node({.background_threads = true}, RealClock());
  ASSERT_TRUE(node.Open().ok());
  std::atomic<int> failures{0};

  const auto client = [&](uint64_t number) {
    for (uint8_t value = 1; value <= 100; ++value) {
      const std::vector<std::byte> bytes(100, std::byte{value});
      std::vector<std::byte> back(100);
      if (!node.volume().Write(number * 100, bytes, false).ok()) ++failures;
      if (!node.volume().Read(number * 100, back).ok() || back != bytes) ++failures;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(client, i);
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace ebb::storage
