#include "storage-backend/reduce/compression_pool.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

TEST(CompressionPoolTest, UnitsComeBackOnceAndInOrder) {
  CompressionPool pool(4096);
  for (const int threads : {1, 2, 8, 1, 2}) {
    for (const size_t count : {0u, 1u, 3u, 100u}) {
      std::vector<size_t> taken;
      const absl::Status status = pool.Run(
          count, threads,
          [](size_t i, CompressionPool::Slot& slot, Compressor&) { slot.stored_bytes = i + 7; },
          [&](size_t i, CompressionPool::Slot& slot) {
            EXPECT_EQ(slot.stored_bytes, i + 7);
            taken.push_back(i);
            return absl::OkStatus();
          });
      ASSERT_TRUE(status.ok());
      ASSERT_EQ(taken.size(), count);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(taken[i], i);
    }
  }
}

// Goal: two threads work at the same time. Method: each unit waits for another to be under work.
TEST(CompressionPoolTest, TwoThreadsWorkAtOnce) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  CompressionPool pool(4096);
  std::atomic<size_t> begun = 0;

  const absl::Status status = pool.Run(
      2, 2,
      [&](size_t, CompressionPool::Slot&, Compressor&) {
        ++begun;
        while (begun < 2) std::this_thread::yield();
      },
      [](size_t, CompressionPool::Slot&) { return absl::OkStatus(); });

  EXPECT_TRUE(status.ok());
}

TEST(CompressionPoolTest, OneThreadIsTheCallersOwn) {
  CompressionPool pool(4096);
  std::set<std::thread::id> seen;
  ASSERT_TRUE(pool.Run(
                      20, 1,
                      [&](size_t, CompressionPool::Slot&, Compressor&) {
                        seen.insert(std::this_thread::get_id());
                      },
                      [](size_t, CompressionPool::Slot&) { return absl::OkStatus(); })
                  .ok());
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(CompressionPoolTest, AnErrorEndsTheBatchAndTheNextOneIsFine) {
  CompressionPool pool(4096);
  for (int round = 0; round < 50; ++round) {
    size_t taken = 0;
    std::atomic<bool> over = false;
    const absl::Status status = pool.Run(
        1000, 2, [&](size_t, CompressionPool::Slot&, Compressor&) { EXPECT_FALSE(over); },
        [&](size_t i, CompressionPool::Slot&) {
          ++taken;
          return i == 5 ? absl::DataLossError("unit 5") : absl::OkStatus();
        });
    over = true;
    EXPECT_EQ(status.message(), "unit 5");
    EXPECT_EQ(taken, 6u);
  }
}

}  // namespace
}  // namespace ebb::storage
