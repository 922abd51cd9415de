// Sampled deduplication: finds copied runs, and shares nothing that is not equal.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "storage-backend/capacity/tier_steps.h"
#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

constexpr StoreOptions kSampled{.dedup = Dedup::kSampled};

uint64_t CountLookedUp(const Model& model) {
  std::vector<std::byte> data(kTestBlock);
  return static_cast<uint64_t>(std::count_if(model.begin(), model.end(), [&](const auto& one) {
    Fill(one.second, data.data());
    return IsLookedUp(Dedup::kSampled, Crc32c(data));
  }));
}

class SampledDedupTest : public ::testing::TestWithParam<Compression> {};

TEST_P(SampledDedupTest, FindsNearlyAllOfACopiedRun) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const StoreOptions options{.compression = GetParam(), .dedup = Dedup::kSampled};
  Model model;
  StoreReport report;
  // Two files, stored a part at a time, as destage does.
  for (uint64_t part = 0; part < 8; ++part) {
    const Model file =
        Blocks(part * 64, 64, part < 4 ? Content::kText : Content::kRandom, part * 64);
    ASSERT_TRUE(harness.Store(file, options, &report).ok());
    EXPECT_EQ(report.deduplicated_blocks, 0u);
    Apply(file, model);
  }
  const uint64_t one_copy = harness.tier->Usage().unique_bytes;
  uint64_t found = 0;
  for (uint64_t part = 0; part < 8; ++part) {
    const Model copy =
        Blocks(600 + part * 64, 64, part < 4 ? Content::kText : Content::kRandom, part * 64);
    ASSERT_TRUE(harness.Store(copy, options, &report).ok());
    found += report.deduplicated_blocks;
    Apply(copy, model);
  }

  EXPECT_LT(CountLookedUp(model), model.size() / 4);
  EXPECT_GT(found, 480u);
  EXPECT_EQ(harness.tier->Usage().unique_bytes, one_copy + (512 - found) * kTestBlock);
  EXPECT_EQ(harness.Faults(), "");
  ASSERT_TRUE(harness.CrashAndOpen(1).ok());
  EXPECT_EQ(harness.Compare(model, 1200), "");

  // The original goes; the copy stays whole.
  ASSERT_TRUE(harness.tier->Remove(0, 600).ok());
  for (uint64_t block = 0; block < 512; ++block) model.erase(block);
  EXPECT_EQ(harness.Compare(model, 1200), "");
  EXPECT_EQ(harness.Faults(), "");
}

INSTANTIATE_TEST_SUITE_P(Codecs, SampledDedupTest,
                         ::testing::Values(Compression::kOff, Compression::kLz4));

TEST(SampledTierTest, FindsSingleBlocksThatAreLookedUpOnly) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 400, Content::kRandom, 0);
  ASSERT_TRUE(harness.Store(model, kSampled).ok());
  // Every tenth of them, so that no two neighbours are.
  Model scattered;
  for (uint64_t block = 0; block < 400; block += 10) scattered[block + 500] = model.at(block);
  StoreReport report;

  ASSERT_TRUE(harness.Store(scattered, kSampled, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, CountLookedUp(scattered));
  EXPECT_LT(report.deduplicated_blocks, 20u);
  Apply(model, scattered);
  EXPECT_EQ(harness.Compare(scattered, 1000), "");
}

TEST(SampledTierTest, ZeroesAndEqualBlocksOfABatchAreAlwaysFound) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model;
  for (uint64_t block = 0; block < 32; ++block) model[block] = {Content::kRandom, block % 4};
  StoreReport report;
  ASSERT_TRUE(harness.Store(model, kSampled, &report).ok());
  EXPECT_EQ(report.deduplicated_blocks, 28u);
  ASSERT_TRUE(harness.Store(Blocks(100, 1, Content::kZero, 0), kSampled).ok());

  ASSERT_TRUE(harness.Store(Blocks(200, 1, Content::kZero, 0), kSampled, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, 1u);
  EXPECT_EQ(harness.Compare(model, 32), "");
}

TEST(SampledTierTest, DeadContentIsNotFoundAgain) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 64, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kSampled).ok());
  ASSERT_TRUE(harness.tier->Remove(0, 64).ok());
  StoreReport report;

  ASSERT_TRUE(harness.Store(model, kSampled, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, 0u);
  EXPECT_EQ(harness.Compare(model, 64), "");
  EXPECT_EQ(harness.Faults(), "");
}

// Goal: equal checksums are not taken for equal blocks.
// Method: a copy in which every block that is not looked up differs from the original by the
// polynomial of CRC32C, which leaves the checksum as it is.
TEST(SampledTierTest, ForgedChecksumsShareNothing) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 64, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kSampled).ok());
  constexpr std::array<uint8_t, 5> kPolynomial = {0xf1, 0x76, 0xec, 0x05, 0x01};
  AlignedBuffer data(64 * kTestBlock);
  std::vector<StoreBlock> blocks;
  for (const auto& [block, content] : model) {
    std::byte* const at = data.data() + block * kTestBlock;
    Fill(content, at);
    const uint32_t crc32c = Crc32c({at, kTestBlock});
    if (!IsLookedUp(Dedup::kSampled, crc32c)) {
      for (size_t i = 0; i < kPolynomial.size(); ++i) at[1000 + i] ^= std::byte{kPolynomial[i]};
    }
    ASSERT_EQ(Crc32c({at, kTestBlock}), crc32c);
    blocks.push_back({.block = 100 + block, .data = at, .crc32c = crc32c});
  }
  StoreReport report;

  ASSERT_TRUE(harness.tier->Store(blocks, kSampled, &report, nullptr).ok());

  EXPECT_EQ(report.deduplicated_blocks, CountLookedUp(model));
  AlignedBuffer out(64 * kTestBlock);
  ASSERT_TRUE(harness.tier->Read(100, 64, out.data(), {}).ok());
  EXPECT_EQ(std::memcmp(out.data(), data.data(), out.size()), 0);
  EXPECT_EQ(harness.Compare(model, 64), "");
}

TEST(SampledTierTest, BlockThatChangedInMemoryIsNotShared) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 64, Content::kRandom, 1);
  ASSERT_TRUE(harness.Store(model, kSampled).ok());
  AlignedBuffer data(64 * kTestBlock);
  std::vector<StoreBlock> blocks;
  for (const auto& [block, content] : model) {
    std::byte* const at = data.data() + block * kTestBlock;
    Fill(content, at);
    blocks.push_back({.block = 100 + block, .data = at, .crc32c = Crc32c({at, kTestBlock})});
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::byte& flipped = data.data()[i * kTestBlock + 77];
    flipped ^= std::byte{4};
    EXPECT_EQ(harness.tier->Store(blocks, kSampled, nullptr, nullptr).code(),
              absl::StatusCode::kDataLoss);
    flipped ^= std::byte{4};
  }
  EXPECT_TRUE(harness.tier->Store(blocks, kSampled, nullptr, nullptr).ok());
}

// Goal: what cannot be compared is stored anew: a copy never depends on a damaged original.
TEST(SampledTierTest, CopyOfADamagedRunIsStoredAnew) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  const Model model = Blocks(0, 64, Content::kRandom, 1);
  StoreReport report;
  ASSERT_TRUE(harness.Store(model, kSampled, &report).ok());
  std::vector<std::byte> data(kTestBlock);
  // Blocks 0 to 63 lie in their order behind the header.
  for (const auto& [block, content] : model) {
    Fill(content, data.data());
    if (IsLookedUp(Dedup::kSampled, Crc32c(data))) continue;
    harness.disks[0]->FlipBits(kSegmentAreaStart + (1 + block) * kTestBlock, 1);
  }
  const Model copy = Blocks(100, 64, Content::kRandom, 1);

  ASSERT_TRUE(harness.Store(copy, kSampled, &report).ok());

  EXPECT_EQ(report.deduplicated_blocks, CountLookedUp(model));
  for (const auto& [block, content] : copy) {
    Fill(content, data.data());
    AlignedBuffer out(kTestBlock);
    ASSERT_TRUE(harness.tier->Read(block, 1, out.data(), {}).ok());
    EXPECT_EQ(std::memcmp(out.data(), data.data(), kTestBlock), 0) << block;
  }
}

// Goal: a node may change between the words at any time.
TEST(SampledTierTest, LivesBesideUnitsOfTheOtherWords) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  Model model;
  Rng rng(5);
  for (int round = 0; round < 60; ++round) {
    const Model batch = Blocks(rng.Below(300), 1 + rng.Below(100), Content::kRandom, rng.Below(50));
    const auto dedup = static_cast<Dedup>(rng.Below(3));
    ASSERT_TRUE(harness.Store(batch, {.unit_bytes = 16384, .dedup = dedup}).ok());
    Apply(batch, model);
    ASSERT_EQ(harness.Faults(), "") << "round " << round;
  }
  EXPECT_EQ(harness.Compare(model, 400), "");
}

}  // namespace
}  // namespace ebb::storage
