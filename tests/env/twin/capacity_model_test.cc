#include "env/twin/capacity_model.h"

#include <algorithm>

#include "base/rng.h"
#include "tests/env/twin/twin_testing.h"

namespace ebb::twin {
namespace {

constexpr StoreChoice kDirect{};
constexpr StoreChoice kLz4{.compression = storage::Compression::kLz4};
constexpr StoreChoice kDedup{.compression = storage::Compression::kLz4,
                             .dedup = storage::Dedup::kOn};

class CapacityModelTest : public ::testing::Test {
 protected:
  CapacityModelTest() : load_(512 * kMiB) {
    node_ = SmallNode();
    node_.capacity_bytes = 64 * kMiB;
    // 32 MiB of blocks, of which some share content.
    for (uint64_t page = 0; page < 64; ++page) {
      load_.Add({.op = trace::TraceOp::kWrite,
                 .offset = page * 512 * kKiB,
                 .bytes = 8192,
                 .fingerprints = {1 + page % 4, 1 + page % 4}});
    }
    load_.Close(1);
    table_.resize(load_.block_count());
    model_ = std::make_unique<CapacityModel>(node_, load_, 1, table_);
  }

  static CapacityModel::BatchBlock Block(uint32_t block, uint32_t content = 0,
                                         uint16_t per_mille = 500) {
    return {.block = block, .content = content, .compressed_per_mille = per_mille};
  }
  void Store(std::vector<CapacityModel::BatchBlock> blocks, const StoreChoice& choice) {
    model_->BeginBatch(blocks, choice);
    CapacityModel::Extent extent;
    bool full = false;
    while (model_->NextExtent(extent, full)) written_bytes_ += extent.write.bytes;
    ASSERT_FALSE(full);
    model_->CommitBatch();
  }
  std::vector<Transfer> Read(uint32_t first, uint32_t count) {
    std::vector<Transfer> transfers;
    model_->PlanRead(first, count, transfers, cpu_ns_);
    return transfers;
  }
  bool Compact(bool urgent) {
    std::vector<Transfer> reads;
    if (!model_->BeginCompaction(urgent, reads)) return false;
    for (const Transfer& read : reads) read_bytes_ += read.bytes;
    CapacityModel::Extent extent;
    bool full = false;
    while (model_->NextExtent(extent, full)) {
    }
    EXPECT_FALSE(full);
    model_->CommitBatch();
    return true;
  }

  NodeModel node_;
  RequestStream load_;
  BlockTable table_;
  std::unique_ptr<CapacityModel> model_;
  uint64_t written_bytes_ = 0;
  uint64_t read_bytes_ = 0;
  double cpu_ns_ = 0;
};

TEST_F(CapacityModelTest, DirectBlocksOfABatchLieSideBySide) {
  Store({Block(3), Block(4), Block(5), Block(9)}, kDirect);

  const auto transfers = Read(3, 3);
  ASSERT_EQ(transfers.size(), 1u);
  EXPECT_EQ(transfers[0].bytes, 3u * 4096);
  EXPECT_TRUE(Read(100, 4).empty()) << "unmapped";
  EXPECT_EQ(model_->usage().logical_blocks, 4u);
  EXPECT_EQ(written_bytes_, 5u * 4096) << "a header and four blocks";
}

TEST_F(CapacityModelTest, OneBlockOfACompressedUnitReadsTheUnit) {
  std::vector<CapacityModel::BatchBlock> blocks;
  for (uint32_t i = 0; i < 8; ++i) blocks.push_back(Block(i));
  Store(blocks, kLz4);

  const auto transfers = Read(5, 1);

  ASSERT_EQ(transfers.size(), 1u);
  // 32 KiB at one half, from anywhere in the extent's blocks.
  EXPECT_GE(transfers[0].bytes, 16'384u);
  EXPECT_LE(transfers[0].bytes, 16'384u + 4096);
  EXPECT_GT(cpu_ns_, 0) << "it has to be decompressed";
  EXPECT_EQ(model_->counters().stored_bytes, 16'384u);
}

TEST_F(CapacityModelTest, WhatDoesNotCompressIsStoredDirectly) {
  Store({Block(0, 0, 1000), Block(1, 0, 1000)}, kLz4);

  EXPECT_EQ(model_->counters().stored_bytes, 8192u);
  EXPECT_EQ(Read(0, 2).size(), 1u);
}

TEST_F(CapacityModelTest, EqualBlocksAreStoredOnce) {
  Store({Block(0, 1), Block(1, 1), Block(2, 2)}, kDedup);
  EXPECT_EQ(model_->usage().logical_blocks, 3u);
  EXPECT_EQ(model_->usage().unique_blocks, 2u);
  EXPECT_EQ(model_->counters().deduplicated_blocks, 1u);
  EXPECT_EQ(table_[0].capacity, table_[1].capacity);

  Store({Block(7, 1)}, kDedup);
  EXPECT_EQ(model_->usage().unique_blocks, 2u);

  for (const uint32_t block : {0, 1, 7}) model_->Unmap(block);
  EXPECT_EQ(model_->usage().logical_blocks, 1u);
  EXPECT_EQ(model_->usage().unique_blocks, 1u);
}

// The batch overwrites the last holder of what another of its blocks shares.
TEST_F(CapacityModelTest, ASharedBlockOutlivesItsFirstHolder) {
  Store({Block(0, 1)}, kDedup);

  Store({Block(0, 2), Block(5, 1)}, kDedup);

  EXPECT_EQ(model_->usage().unique_blocks, 2u);
  EXPECT_EQ(model_->counters().deduplicated_blocks, 1u);
  model_->Unmap(5);
  EXPECT_EQ(model_->usage().unique_blocks, 1u);
}

TEST_F(CapacityModelTest, WithoutDedupEqualBlocksAreStoredTwice) {
  Store({Block(0, 1), Block(1, 1)}, kLz4);

  EXPECT_EQ(model_->usage().unique_blocks, 2u);
}

// 512 blocks of different content, and behind them the same again.
RequestStream TwoCopies() {
  std::vector<trace::TraceRecord> records;
  std::vector<uint64_t> contents(512);
  for (uint64_t i = 0; i < 512; ++i) contents[i] = 1000 + i;
  for (uint64_t copy = 0; copy < 2; ++copy) {
    records.push_back({.op = trace::TraceOp::kWrite,
                       .offset = copy * 2 * kMiB,
                       .bytes = 2 * kMiB,
                       .fingerprints = contents});
  }
  return MakeLoad(records, 512 * kMiB);
}

TEST_F(CapacityModelTest, SampledDedupFindsCopiedRunsAndFewSingleBlocks) {
  const StoreChoice sampled{.dedup = storage::Dedup::kSampled};
  const RequestStream load = TwoCopies();
  BlockTable table(load.block_count());
  const auto found = [&](uint32_t stride) {
    std::fill(table.begin(), table.end(), BlockState{});
    model_ = std::make_unique<CapacityModel>(node_, load, 1, table);
    std::vector<CapacityModel::BatchBlock> first;
    std::vector<CapacityModel::BatchBlock> second;
    for (uint32_t i = 0; i < 512; i += stride) {
      first.push_back(Block(i, load.contents()[i]));
      second.push_back(Block(512 + i, load.contents()[i]));
    }
    Store(first, sampled);
    Store(second, sampled);
    return static_cast<double>(model_->counters().deduplicated_blocks) * stride / 512;
  };

  EXPECT_GT(found(1), 0.95);
  EXPECT_NEAR(found(2), 0.125, 0.06) << "no two lie side by side";
}

TEST_F(CapacityModelTest, SampledDedupReadsBackTheRunsItGuesses) {
  const StoreChoice sampled{.dedup = storage::Dedup::kSampled};
  const RequestStream load = TwoCopies();
  BlockTable table(load.block_count());
  const auto read_back_bytes = [&](const StoreChoice& choice) {
    std::fill(table.begin(), table.end(), BlockState{});
    model_ = std::make_unique<CapacityModel>(node_, load, 1, table);
    std::vector<CapacityModel::BatchBlock> first;
    std::vector<CapacityModel::BatchBlock> second;
    for (uint32_t i = 0; i < 512; ++i) {
      first.push_back(Block(i, load.contents()[i]));
      second.push_back(Block(512 + i, load.contents()[i]));
    }
    Store(first, choice);
    uint64_t bytes = 0;
    for (const Transfer& transfer : model_->read_back()) bytes += transfer.bytes;
    EXPECT_EQ(bytes, 0u) << "nothing to be compared with";
    Store(second, choice);
    for (const Transfer& transfer : model_->read_back()) bytes += transfer.bytes;
    return bytes;
  };

  EXPECT_EQ(read_back_bytes(kDedup), 0u) << "fingerprints prove it";
  EXPECT_GT(read_back_bytes(sampled), 0.7 * 2 * kMiB);
}

TEST_F(CapacityModelTest, EqualBlocksOfABatchAreToldInMemory) {
  // Three of a content that no look-up has seen, far from each other.
  std::vector<trace::TraceRecord> records(2, {.op = trace::TraceOp::kWrite, .bytes = 64 * 4096});
  for (uint64_t i = 0; i < 64; ++i) {
    records[0].fingerprints.push_back(1 + i);
    records[1].fingerprints.push_back(1 + i);
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB);
  table_.assign(load.block_count(), BlockState{});
  model_ = std::make_unique<CapacityModel>(node_, load, 1, table_);
  for (uint32_t content = 1; content <= load.content_count(); ++content) {
    Store({Block(0, content), Block(2, content), Block(4, content)},
          {.dedup = storage::Dedup::kSampled});
    ASSERT_EQ(model_->usage().unique_blocks, 1u) << content;
    for (const uint32_t block : {0, 2, 4}) model_->Unmap(block);
    ASSERT_EQ(model_->usage().unique_blocks, 0u) << content;
  }
}

TEST_F(CapacityModelTest, ContentFromOutsideTheSampleIsNotStored) {
  Store({Block(0, 1 | RequestStream::kSeenOutside)}, kDedup);

  EXPECT_EQ(model_->usage().logical_blocks, 1u);
  EXPECT_EQ(model_->usage().unique_blocks, 0u);
  EXPECT_EQ(written_bytes_, 0u);
  EXPECT_EQ(Read(0, 1).size(), 1u) << "it lies somewhere";
  model_->Unmap(0);
  EXPECT_EQ(model_->usage().logical_blocks, 0u);
}

// One that a block outside of the sample had before, stored again, and its copies in the same
// batch.
TEST_F(CapacityModelTest, SampledDedupCountsEachHolderOfWhatWasSeenOutside) {
  const StoreChoice sampled{.dedup = storage::Dedup::kSampled};
  std::vector<trace::TraceRecord> records;
  for (uint64_t copy = 0; copy < 2; ++copy) {
    trace::TraceRecord record{
        .op = trace::TraceOp::kWrite, .offset = copy * 512 * kKiB, .bytes = 64 * 4096};
    for (uint64_t i = 0; i < 64; ++i) record.fingerprints.push_back(1 + i);
    records.push_back(record);
  }
  const RequestStream load = MakeLoad(records, 512 * kMiB);
  table_.assign(load.block_count(), BlockState{});
  model_ = std::make_unique<CapacityModel>(node_, load, 1, table_);
  // Not side by side: whether a block is looked up depends on its content alone.
  for (uint32_t content = 1; content <= load.content_count(); ++content) {
    Store({Block(0, content | RequestStream::kSeenOutside), Block(2, content), Block(4, content)},
          sampled);

    for (const uint32_t block : {0, 2, 4}) model_->Unmap(block);

    ASSERT_EQ(model_->usage().unique_blocks, 0u) << content;
    ASSERT_EQ(model_->usage().logical_blocks, 0u) << content;
  }
}

TEST_F(CapacityModelTest, PrefillMapsEverythingInOrder) {
  ASSERT_TRUE(model_->Prefill(kDirect) == false) << "512 MiB do not fit 128 MiB";
  node_.capacity_bytes = 512 * kMiB;
  model_ = std::make_unique<CapacityModel>(node_, load_, 1, table_);
  std::fill(table_.begin(), table_.end(), BlockState{});

  ASSERT_TRUE(model_->Prefill(kDirect));

  EXPECT_EQ(model_->usage().logical_blocks, load_.block_count());
  for (const BlockState& state : table_) EXPECT_NE(state.capacity, 0u);
  EXPECT_NEAR(static_cast<double>(model_->physical_bytes()), 512.0 * kMiB, 8.0 * kMiB);
}

// Property: whatever is stored, trimmed and compacted, the segments' live bytes are those of what
// the map still refers to, and space comes back.
TEST_F(CapacityModelTest, AccountsAgreeOverRandomSteps) {
  Rng rng(11);
  std::vector<bool> mapped(load_.block_count(), false);
  uint64_t compactions = 0;
  for (int step = 0; step < 3'000; ++step) {
    std::vector<CapacityModel::BatchBlock> blocks;
    auto block = static_cast<uint32_t>(rng.Below(4'000));
    for (uint64_t i = rng.Below(60) + 1; i > 0 && block < 4'096; --i) {
      const uint32_t content = rng.Chance(0.2) ? 1 + static_cast<uint32_t>(rng.Below(4)) : 0;
      blocks.push_back(Block(block, content, rng.Chance(0.3) ? 1000 : 400));
      mapped[block] = true;
      block += 1 + static_cast<uint32_t>(rng.Below(3));
    }
    while (!model_->HasRoomFor(blocks.size())) {
      ASSERT_TRUE(Compact(/*urgent=*/true)) << "step " << step;
      ++compactions;
    }
    const StoreChoice* const choices[] = {&kDirect, &kLz4, &kDedup};
    Store(blocks, *choices[rng.Below(3)]);
    if (rng.Chance(0.1)) {
      const auto trimmed = static_cast<uint32_t>(rng.Below(4'096));
      model_->Unmap(trimmed);
      mapped[trimmed] = false;
    }
    if (rng.Chance(0.1)) compactions += Compact(/*urgent=*/false) ? 1 : 0;
  }
  EXPECT_GT(compactions, 10u);
  EXPECT_GT(read_bytes_, 0u);
  EXPECT_EQ(model_->usage().logical_blocks,
            static_cast<uint64_t>(std::count(mapped.begin(), mapped.end(), true)));
  for (uint32_t i = 0; i < mapped.size(); ++i) {
    ASSERT_EQ(table_[i].capacity != 0, mapped[i]) << i;
    if (mapped[i]) {
      ASSERT_EQ(Read(i, 1).size(), 1u) << i;
    }
  }
  // Everything unmapped: nothing lives, and only the open segments are in use.
  for (uint32_t i = 0; i < mapped.size(); ++i) model_->Unmap(i);
  EXPECT_EQ(model_->usage().unique_blocks, 0u);
  EXPECT_LE(model_->space().total_segments() - model_->space().free_segments(), 4u);
}

}  // namespace
}  // namespace ebb::twin
