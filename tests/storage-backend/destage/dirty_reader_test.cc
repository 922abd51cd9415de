#include "storage-backend/destage/dirty_reader.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/storage-backend/destage/bad_block_device.h"

namespace ebb::storage {
namespace {

class DirtyReaderTest : public testing::Test {
 protected:
  static constexpr uint64_t kBlocks = 1024;

  void SetUp() override {
    AlignedBuffer block(4096);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      std::memset(block.data(), static_cast<int>(i % 251), block.size());
      ASSERT_TRUE(device_.Write(i * 4096, block.span()).ok());
    }
  }
  static std::vector<LogMap::DirtyBlock> At(const std::vector<uint32_t>& cache_blocks) {
    std::vector<LogMap::DirtyBlock> blocks;
    for (const uint32_t at : cache_blocks) {
      blocks.push_back({.block = at + 5000, .cache_block = at, .crc32c = at});
    }
    return blocks;
  }
  // The reader's answer is for these cache blocks and holds what lies there.
  static void ExpectBlocks(const DirtyReader::Result& result,
                           const std::vector<uint32_t>& cache_blocks) {
    ASSERT_EQ(result.blocks.size(), cache_blocks.size());
    for (size_t i = 0; i < cache_blocks.size(); ++i) {
      EXPECT_EQ(result.blocks[i].dirty.cache_block, cache_blocks[i]);
      const auto expected = static_cast<std::byte>(cache_blocks[i] % 251);
      EXPECT_EQ(result.blocks[i].data[0], expected);
      EXPECT_EQ(result.blocks[i].data[4095], expected);
    }
  }

  BadBlockDevice device_{kBlocks * 4096};
  DirtyReader reader_{device_};
};

TEST_F(DirtyReaderTest, NeighboursAreReadTogether) {
  ExpectBlocks(reader_.Read(At({3, 4, 5, 9})), {3, 4, 5, 9});
  EXPECT_EQ(device_.reads, 2u);
}

TEST_F(DirtyReaderTest, PrefetchedBlocksAreNotReadAgain) {
  reader_.Prefetch(At({1, 2, 3, 8}));
  EXPECT_EQ(device_.reads, 0u);
  reader_.Advance();
  EXPECT_EQ(device_.reads, 2u);

  ExpectBlocks(reader_.Read(At({1, 3, 8})), {1, 3, 8});
  EXPECT_EQ(device_.reads, 2u);
}

TEST_F(DirtyReaderTest, ReadFinishesWhatAdvanceDidNotStart) {
  reader_.Prefetch(At({1, 3, 5, 7, 9}));
  reader_.Advance();
  EXPECT_LT(device_.reads, 5u);

  ExpectBlocks(reader_.Read(At({1, 3, 5, 7, 9})), {1, 3, 5, 7, 9});
  EXPECT_EQ(device_.reads, 5u);
}

TEST_F(DirtyReaderTest, WhatWasNotPrefetchedIsReadAnew) {
  reader_.Prefetch(At({2, 3}));
  std::vector<LogMap::DirtyBlock> wanted = At({1, 2, 3, 4});
  wanted[2].crc32c = 77;  // another version by now
  reader_.Advance();
  const uint64_t reads = device_.reads;

  ExpectBlocks(reader_.Read(wanted), {1, 2, 3, 4});
  EXPECT_EQ(device_.reads, reads + 2);  // 1; 3 and 4
}

// Goal: what one Read gave stays while the next batch is read ahead.
TEST_F(DirtyReaderTest, PrefetchLeavesTheLastAnswerAlone) {
  reader_.Prefetch(At({1, 2}));
  const DirtyReader::Result first = reader_.Read(At({1, 2, 50}));
  reader_.Prefetch(At({10, 11, 12}));
  reader_.Advance();

  ExpectBlocks(first, {1, 2, 50});
  ExpectBlocks(reader_.Read(At({10, 11, 12})), {10, 11, 12});
}

TEST_F(DirtyReaderTest, MoreRunsThanTheQueueTakes) {
  std::vector<uint32_t> scattered;
  for (uint32_t i = 0; i < 200; ++i) scattered.push_back(1 + 3 * i);
  reader_.Prefetch(At(scattered));
  ExpectBlocks(reader_.Read(At(scattered)), scattered);
}

TEST_F(DirtyReaderTest, ABadBlockCostsOnlyItself) {
  device_.bad = {5};
  for (const bool ahead : {false, true}) {
    if (ahead) reader_.Prefetch(At({3, 4, 5, 6, 9}));

    const DirtyReader::Result result = reader_.Read(At({3, 4, 5, 6, 9}));

    ExpectBlocks(result, {3, 4, 6, 9});
    ASSERT_EQ(result.unreadable.size(), 1u);
    EXPECT_EQ(result.unreadable[0].cache_block, 5u);
    EXPECT_EQ(result.status.message(), "EIO");
  }
}

}  // namespace
}  // namespace ebb::storage
