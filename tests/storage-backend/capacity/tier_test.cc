#include "storage-backend/capacity/tier.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

using ::testing::HasSubstr;

constexpr StoreOptions kRaw{};
constexpr StoreOptions kDedup{.dedup = Dedup::kOn};

TEST(TierTest, StoresAndReadsBackRawBlocks) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(3, 200, Content::kRandom, 1);
  StoreReport report;

  ASSERT_TRUE(harness.Store(model, kRaw, &report).ok());

  EXPECT_EQ(harness.Compare(model, 256), "");
  EXPECT_EQ(harness.Compare(model, 256, 1), "");
  EXPECT_EQ(report.blocks, 200u);
  EXPECT_EQ(report.raw_bytes, 200 * kTestBlock);
  EXPECT_EQ(report.stored_bytes, 200 * kTestBlock);
  EXPECT_GE(report.written_bytes, 201 * kTestBlock);
  EXPECT_LE(report.written_bytes, 206 * kTestBlock);
  EXPECT_EQ(harness.Faults(), "");
}

TEST(TierTest, OverwriteReplacesAndRemoveUnmaps) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 64, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kRaw).ok());
  const Model changes = Blocks(10, 20, Content::kRandom, 1000);
  ASSERT_TRUE(harness.Store(changes, kRaw).ok());
  Apply(changes, model);
  EXPECT_EQ(harness.Compare(model, 70), "");

  ASSERT_TRUE(harness.tier->Remove(5, 30).ok());
  for (uint64_t block = 5; block < 35; ++block) model.erase(block);

  EXPECT_EQ(harness.Compare(model, 70), "");
  EXPECT_EQ(harness.tier->Usage().logical_bytes, model.size() * kTestBlock);
  EXPECT_EQ(harness.Faults(), "");
}

TEST(TierTest, RemovingTheEndOfTheNumberLineIsFine) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  ASSERT_TRUE(harness.Store(Blocks(0, 4, Content::kRandom, 1), kRaw).ok());

  EXPECT_TRUE(harness.tier->Remove(2, UINT64_MAX).ok());

  EXPECT_EQ(harness.tier->Usage().logical_bytes, 2 * kTestBlock);
}

TEST(TierTest, ReopenKeepsEverything) {
  TierHarness harness({16 << 20, 16 << 20});
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 300, Content::kText, 1);
  ASSERT_TRUE(harness.Store(model, {.compression = Compression::kZstd1, .dedup = Dedup::kOn}).ok());
  const CapacityUsage before = harness.tier->Usage();

  ASSERT_TRUE(harness.CrashAndOpen(1).ok());

  EXPECT_EQ(harness.Compare(model, 300), "");
  EXPECT_EQ(harness.tier->Usage().physical_bytes, before.physical_bytes);
  EXPECT_EQ(harness.tier->Usage().free_bytes, before.free_bytes);
  EXPECT_EQ(harness.Faults(), "");
  const Model more = Blocks(100, 300, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(more, kRaw).ok());
  Apply(more, model);
  EXPECT_EQ(harness.Compare(model, 400), "");
}

TEST(TierTest, IdenticalCopiesTakeHalf) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 512, Content::kRandom, 1);
  StoreReport report;
  ASSERT_TRUE(harness.Store(model, kDedup, &report).ok());
  EXPECT_EQ(report.deduplicated_blocks, 0u);
  const uint64_t one_copy = harness.tier->Usage().physical_bytes;

  const Model copy = Blocks(512, 512, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(copy, kDedup, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, 512u);
  EXPECT_EQ(report.written_bytes, 0u);
  Apply(copy, model);
  EXPECT_EQ(harness.Compare(model, 1024), "");
  const CapacityUsage usage = harness.tier->Usage();
  EXPECT_EQ(usage.physical_bytes, one_copy);
  EXPECT_EQ(usage.logical_bytes, 1024 * kTestBlock);
  EXPECT_EQ(usage.unique_bytes, 512 * kTestBlock);
  EXPECT_EQ(harness.Faults(), "");
}

TEST(TierTest, DuplicatesWithinOneBatchAreFound) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model;
  for (uint64_t block = 0; block < 256; ++block) model[block] = {Content::kRandom, block % 16};
  StoreReport report;

  ASSERT_TRUE(harness.Store(model, kDedup, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, 240u);
  EXPECT_EQ(harness.Compare(model, 256), "");
  EXPECT_EQ(harness.tier->Usage().unique_bytes, 16 * kTestBlock);
  EXPECT_EQ(harness.Faults(), "");
}

// Goal: a shared block dies with its last user and not before.
TEST(TierTest, SharedBlocksLiveUntilTheLastUserLeaves) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 8, Content::kRandom, 1);
  Apply(Blocks(8, 8, Content::kRandom, 1), model);
  ASSERT_TRUE(harness.Store(model, kDedup).ok());

  ASSERT_TRUE(harness.tier->Remove(0, 8).ok());
  for (uint64_t block = 0; block < 8; ++block) model.erase(block);
  EXPECT_EQ(harness.Compare(model, 16), "");
  EXPECT_EQ(harness.tier->Usage().unique_bytes, 8 * kTestBlock);
  ASSERT_TRUE(harness.tier->Remove(8, 8).ok());
  EXPECT_EQ(harness.tier->Usage().unique_bytes, 0u);
  EXPECT_EQ(harness.Faults(), "");

  // The dead content must not be found again.
  StoreReport report;
  model = Blocks(0, 8, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kDedup, &report).ok());
  EXPECT_EQ(report.deduplicated_blocks, 0u);
  EXPECT_EQ(harness.Compare(model, 16), "");
}

TEST(TierTest, RewritingTheSameContentChangesNothing) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 64, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kDedup).ok());
  const CapacityUsage before = harness.tier->Usage();

  StoreReport report;
  ASSERT_TRUE(harness.Store(model, kDedup, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, 64u);
  EXPECT_EQ(harness.tier->Usage().physical_bytes, before.physical_bytes);
  EXPECT_EQ(harness.Compare(model, 64), "");
  EXPECT_EQ(harness.Faults(), "");
}

TEST(TierTest, TextShrinksByTheCodecsRatio) {
  for (const Compression codec : {Compression::kLz4, Compression::kZstd1, Compression::kZstd3}) {
    TierHarness harness;
    ASSERT_TRUE(harness.Open().ok());
    const Model model = Blocks(0, 1024, Content::kText, 1);
    StoreReport report;

    ASSERT_TRUE(harness.Store(model, {.compression = codec}, &report).ok());

    EXPECT_EQ(harness.Compare(model, 1024), "");
    EXPECT_LT(report.stored_bytes, report.raw_bytes / 2);
    const CapacityUsage usage = harness.tier->Usage();
    EXPECT_EQ(usage.stored_bytes, report.stored_bytes);
    EXPECT_LT(static_cast<double>(usage.physical_bytes),
              1.06 * static_cast<double>(report.stored_bytes));
    EXPECT_EQ(harness.Faults(), "");
  }
}

TEST(TierTest, IncompressibleBlocksCostNoMoreThanRaw) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  StoreReport report;
  const Model model = Blocks(0, 512, Content::kRandom, 1);

  ASSERT_TRUE(harness.Store(model, {.compression = Compression::kZstd3}, &report).ok());

  EXPECT_EQ(report.stored_bytes, report.raw_bytes);
  EXPECT_EQ(harness.Compare(model, 512), "");
}

// Goal: a miss of one uncompressed block is one 4 KiB read.
TEST(TierTest, OneRawBlockIsOneRead) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  ASSERT_TRUE(harness.Store(Blocks(0, 100, Content::kRandom, 1), kRaw).ok());
  AlignedBuffer out(kTestBlock);
  const uint64_t reads = harness.disks[0]->counts().reads;

  ASSERT_TRUE(harness.tier->Read(50, 1, out.data(), {}).ok());

  EXPECT_EQ(harness.disks[0]->counts().reads, reads + 1);
}

TEST(TierTest, AdjacentBlocksAreReadTogether) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  ASSERT_TRUE(harness.Store(Blocks(0, 60, Content::kRandom, 1), kRaw).ok());
  AlignedBuffer out(32 * kTestBlock);
  const uint64_t reads = harness.disks[0]->counts().reads;

  ASSERT_TRUE(harness.tier->Read(10, 32, out.data(), {}).ok());

  EXPECT_EQ(harness.disks[0]->counts().reads, reads + 1);
}

TEST(TierTest, SpreadsOverAllDevices) {
  TierHarness harness({16 << 20, 16 << 20, 16 << 20});
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 1536, Content::kRandom, 1);

  ASSERT_TRUE(harness.Store(model, {.parallelism = 6}).ok());

  for (const auto& disk : harness.disks) EXPECT_GE(disk->counts().writes, 6u);
  EXPECT_EQ(harness.Compare(model, 1536), "");
}

TEST(TierTest, RefusesABatchThatIsNotAscendingOrChangedInMemory) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  AlignedBuffer data(kTestBlock);
  const uint32_t crc = Crc32c(data.span());

  const std::vector<StoreBlock> twice = {{1, data.data(), crc}, {1, data.data(), crc}};
  EXPECT_EQ(harness.tier->Store(twice, kRaw, nullptr).code(), absl::StatusCode::kInvalidArgument);
  const std::vector<StoreBlock> changed = {{1, data.data(), crc + 1}};
  EXPECT_EQ(harness.tier->Store(changed, kRaw, nullptr).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(harness.tier->Store({}, kRaw, nullptr).ok());
  EXPECT_EQ(harness.Compare({}, 4), "");
}

TEST(TierTest, AbandonedBatchLeavesNoTrace) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 600, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kRaw).ok());
  const CapacityUsage before = harness.tier->Usage();
  int extents = 0;

  const absl::Status status = harness.Store(Blocks(0, 600, Content::kRandom, 5000), kRaw, nullptr,
                                            [&] { return ++extents < 2; });

  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(harness.Compare(model, 600), "");
  EXPECT_EQ(harness.tier->Usage().physical_bytes, before.physical_bytes);
  EXPECT_EQ(harness.tier->FreeBytes(), before.free_bytes);
  EXPECT_EQ(harness.Faults(), "");
  const Model changes = Blocks(100, 600, Content::kRandom, 9000);
  ASSERT_TRUE(harness.Store(changes, kRaw).ok());
  Apply(changes, model);
  EXPECT_EQ(harness.Compare(model, 700), "");
}

TEST(TierTest, OpenRefusesOtherDevicesAndOtherNodes) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  auto metadata = std::move(harness.metadata);
  Device* const device = harness.devices[0].get();
  harness.tier.reset();

  const auto more = CapacityTier::Open({device, device}, metadata.get());
  EXPECT_THAT(std::string(more.status().message()),
              HasSubstr("describes 1 capacity devices, not 2"));
  const auto other_node = CapacityTier::Open({device}, metadata.get(), Uuid{1, 2, 3});
  EXPECT_THAT(std::string(other_node.status().message()), HasSubstr("belongs to node"));
  TierHarness larger({32 << 20});
  ASSERT_TRUE(larger.Open().ok());
  larger.tier.reset();
  const auto other = CapacityTier::Open({larger.devices[0].get()}, metadata.get());
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("the metadata says"));
  EXPECT_TRUE(CapacityTier::Open({device}, metadata.get()).ok());
}

TEST(TierTest, OpenRefusesAnotherFormat) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  std::string value = **harness.metadata->Get(Table::kNode, kFormatKey);
  value[0] = 1;  // the version
  value.resize(value.size() - 4);
  const uint32_t crc =
      Crc32c(std::as_bytes(std::span(value)), Crc32c(std::as_bytes(std::span(kFormatKey))));
  for (int i = 0; i < 4; ++i) value.push_back(static_cast<char>(crc >> (8 * i)));
  MetadataBatch batch;
  batch.Put(Table::kNode, kFormatKey, value);
  ASSERT_TRUE(harness.metadata->Commit(batch, true).ok());

  const absl::Status status = harness.Open();

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has format 1; this version reads format 2 only"));
}

// Goal: reopening replays the journal, and what it holds stays bounded.
TEST(TierTest, TheJournalStaysShortAndIsReplayed) {
  TierHarness harness({32 << 20});
  harness.tuning = {.map_cache_bytes = 1 << 20, .journal_bytes_max = 8 << 10};
  ASSERT_TRUE(harness.Open().ok());
  Model model;
  Rng rng(1);
  uint64_t bytes_most = 0;
  uint64_t records_most = 0;
  for (int round = 0; round < 60; ++round) {
    Model batch;
    while (batch.size() < 50) batch[rng.Below(2000)] = {Content::kRandom, rng.Next() >> 8};
    ASSERT_TRUE(harness.Store(batch, round % 3 == 0 ? kDedup : kRaw).ok());
    Apply(batch, model);
    uint64_t bytes = 0;
    uint64_t records = 0;
    ASSERT_TRUE(harness.metadata
                    ->Scan(Table::kJournal, "", "",
                           [&](std::string_view, std::string_view value) {
                             bytes += value.size();
                             ++records;
                             return true;
                           })
                    .ok());
    bytes_most = std::max(bytes_most, bytes);
    records_most = std::max(records_most, records);
  }
  EXPECT_GT(records_most, 3u);
  EXPECT_GT(bytes_most, 6u << 10);
  EXPECT_LE(bytes_most, 8u << 10);

  ASSERT_TRUE(harness.Open().ok());

  EXPECT_EQ(harness.Compare(model, 2000), "");
  EXPECT_EQ(harness.Faults(), "");
}

TEST(TierTest, OpenRefusesDevicesThatAreTooSmall) {
  TierHarness harness({1 << 20});
  EXPECT_THAT(std::string(harness.Open().message()), HasSubstr("too small"));
  MemMetadata metadata;
  EXPECT_EQ(CapacityTier::Open({}, &metadata).status().code(), absl::StatusCode::kInvalidArgument);
}

// Goal: readers beside a writer see for each block one of the versions, whole.
// Method: the writer overwrites and compacts in a loop; every block carries its number and version.
TEST(TierTest, ReadersBesideAWriterSeeWholeVersions) {
  TierHarness harness({4 << 20});
  ASSERT_TRUE(harness.Open().ok());
  constexpr uint64_t kBlocks = 256;
  const auto content = [](uint64_t block, uint64_t version) {
    return Content{block % 2 == 0 ? Content::kText : Content::kRandom, block * 1000 + version};
  };
  const auto batch = [&](uint64_t version) {
    Model model;
    for (uint64_t block = 0; block < kBlocks; ++block) model[block] = content(block, version);
    return model;
  };
  ASSERT_TRUE(
      harness.Store(batch(0), {.compression = Compression::kLz4, .dedup = Dedup::kOn}).ok());
  std::atomic<uint64_t> stored = 0;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> reads = 0;
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] {
      Rng rng(static_cast<uint64_t>(i));
      AlignedBuffer out(8 * kTestBlock);
      std::vector<std::byte> expected(kTestBlock);
      while (!stop) {
        const uint64_t first = rng.Below(kBlocks - 8);
        const uint64_t oldest = stored;
        if (!harness.tier->Read(first, 8, out.data(), {}).ok()) ++wrong;
        const uint64_t newest = stored + 1;
        bool found = false;
        for (uint64_t version = oldest; version <= newest && !found; ++version) {
          Fill(content(first, version), expected.data());
          found = std::memcmp(out.data(), expected.data(), kTestBlock) == 0;
        }
        if (!found) ++wrong;
        ++reads;
      }
    });
  }
  for (uint64_t version = 1; version <= 40 || reads < 200; ++version) {
    const absl::Status status =
        harness.Store(batch(version), {.compression = Compression::kLz4, .dedup = Dedup::kOn});
    ASSERT_TRUE(status.ok()) << status;
    stored = version;
    ASSERT_TRUE(harness.tier->CompactStep().ok());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(harness.Faults(), "");
}

}  // namespace
}  // namespace ebb::storage
