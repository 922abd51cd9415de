// Integrity: whatever is damaged is reported, never delivered.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Goal: every stored byte is covered by a checksum.
// Method: flip each byte of the data region in turn and read everything; each read either fails
// with DataLoss or delivers the right bytes (the flip hit padding or a header), never others.
void FlipEveryByte(const StoreOptions& options, const Model& model, uint64_t stride) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  StoreReport report;
  ASSERT_TRUE(harness.Store(model, options, &report).ok());
  uint64_t detected = 0;
  for (uint64_t i = 0; i < report.written_bytes; i += stride) {
    harness.disks[0]->FlipBits(kSegmentAreaStart + i, 0x20);
    AlignedBuffer out(kTestBlock);
    std::vector<std::byte> expected(kTestBlock);
    for (const auto& [block, content] : model) {
      const absl::Status status = harness.tier->Read(block, 1, out.data(), {});
      if (!status.ok()) {
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        ++detected;
        continue;
      }
      Fill(content, expected.data());
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), kTestBlock), 0) << "byte " << i;
    }
    harness.disks[0]->FlipBits(kSegmentAreaStart + i, 0x20);
  }
  EXPECT_GE(detected, (report.stored_bytes - 1024) / stride);
}

TEST(TierDamageTest, EveryFlippedByteOfRawBlocksIsDetected) {
  FlipEveryByte({}, Blocks(0, 2, Content::kRandom, 1), 1);
}

TEST(TierDamageTest, EveryFlippedByteOfCompressedUnitsIsDetected) {
  for (const Compression codec : {Compression::kLz4, Compression::kZstd1}) {
    FlipEveryByte({.compression = codec}, Blocks(0, 4, Content::kText, 1), 1);
  }
}

TEST(TierDamageTest, DataLossNamesBlockDeviceAndOffset) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  ASSERT_TRUE(harness.Store(Blocks(40, 8, Content::kRandom, 1), {}).ok());
  const uint64_t offset = kSegmentAreaStart + 3 * kTestBlock;  // header, 40, 41, 42
  harness.disks[0]->FlipBits(offset + 5, 1);
  AlignedBuffer out(8 * kTestBlock);

  const absl::Status status = harness.tier->Read(40, 8, out.data(), {});

  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("block 42"), HasSubstr("device 0"),
                    HasSubstr("offset " + std::to_string(offset)), HasSubstr("checksum")));
}

// Goal: a write that landed in the wrong place, or never, is an error: the checksum of the map
// belongs to the block and not to the place.
TEST(TierDamageTest, MisplacedDataIsDetected) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  ASSERT_TRUE(harness.Store(Blocks(0, 2, Content::kRandom, 1), {}).ok());
  AlignedBuffer copy(kTestBlock);
  ASSERT_TRUE(harness.devices[0]->Read(kSegmentAreaStart + kTestBlock, copy.span()).ok());
  ASSERT_TRUE(harness.devices[0]->Write(kSegmentAreaStart + 2 * kTestBlock, copy.span()).ok());

  EXPECT_TRUE(harness.tier->Read(0, 1, copy.data(), {}).ok());
  EXPECT_EQ(harness.tier->Read(1, 1, copy.data(), {}).code(), absl::StatusCode::kDataLoss);
}

TEST(TierDamageTest, ABadSectorCostsOnlyItsOwnBlock) {
  TierHarness harness;
  ASSERT_TRUE(harness.Open().ok());
  ASSERT_TRUE(harness.Store(Blocks(0, 8, Content::kRandom, 1), {}).ok());
  AlignedBuffer out(8 * kTestBlock);
  // The transfer for all eight fails, and of the single ones the fourth.
  harness.disks[0]->FailNth(Io::Kind::kRead, 1, FaultyDisk::Fault::kIoError);
  harness.disks[0]->FailNth(Io::Kind::kRead, 5, FaultyDisk::Fault::kIoError);

  const absl::Status status = harness.tier->Read(0, 8, out.data(), {});

  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("block 3"), HasSubstr("device 0")));
}

// Goal: damage of any metadata record is an error or harmless, never other data.
// Method: flip each byte of each record in turn (in place of what RocksDB's own checksums would
// catch), open, read everything.
TEST(TierDamageTest, EveryFlippedMetadataByteIsDetected) {
  TierHarness harness;
  // Of several commits only the last is still in the journal.
  harness.tuning.journal_bytes_max = 300;
  ASSERT_TRUE(harness.Open().ok());
  Model model = Blocks(0, 12, Content::kRandom, 1);
  Apply(Blocks(12, 4, Content::kRandom, 1), model);
  ASSERT_TRUE(harness.Store(model, {.unit_bytes = 16384, .dedup = Dedup::kOn}).ok());
  const Model direct = Blocks(200, 6, Content::kRandom, 500);
  ASSERT_TRUE(harness.Store(direct, {}).ok());
  Apply(direct, model);
  const Model again = Blocks(204, 2, Content::kRandom, 600);
  ASSERT_TRUE(harness.Store(again, {}).ok());
  Apply(again, model);
  uint64_t records = 0;
  uint64_t silent = 0;
  for (const Table table : {Table::kMap, Table::kJournal, Table::kUnits, Table::kFingerprints,
                            Table::kSegments, Table::kExtents, Table::kNode}) {
    std::vector<std::pair<std::string, std::string>> rows;
    ASSERT_TRUE(harness.metadata
                    ->Scan(table, "", "",
                           [&](std::string_view key, std::string_view value) {
                             rows.emplace_back(key, value);
                             return true;
                           })
                    .ok());
    for (const auto& [key, value] : rows) {
      ++records;
      for (size_t i = 0; i < value.size(); ++i) {
        std::string damaged = value;
        damaged[i] = static_cast<char>(damaged[i] ^ 0x01);
        MetadataBatch batch;
        batch.Put(table, key, damaged);
        ASSERT_TRUE(harness.metadata->Commit(batch, true).ok());
        if (const absl::Status opened = harness.Open(); opened.ok()) {
          const std::string difference = harness.Compare(model, 206, 1);
          EXPECT_FALSE(absl::StrContains(difference, "wrong content")) << difference;
          EXPECT_FALSE(absl::StrContains(difference, "mapped")) << difference;
          if (difference.empty() && harness.Faults().empty()) ++silent;
        }
        MetadataBatch restore;
        restore.Put(table, key, value);
        ASSERT_TRUE(harness.metadata->Commit(restore, true).ok());
      }
    }
  }
  // A page, a commit, units, fingerprints, a segment, extents, the node.
  EXPECT_GT(records, 1u + 1u + 2u + 12u + 1u + 3u + 1u);
  EXPECT_EQ(silent, 0u);
}

}  // namespace
}  // namespace ebb::storage
