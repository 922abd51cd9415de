// Damage of a whole node's devices and metadata: every read is right or an error, never garbage.
//
// The tests of the formats flip bytes of one record and ask its decoder; here the node that meets
// the damage is asked.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "fmt/format.h"
#include "storage-backend/capacity/layout.h"
#include "tests/storage-backend/crash/crash_node.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kBlocks = 96;
// Three places: 100,000 and more. EBB_DAMAGE_FLIPS=N makes fewer (sanitizers).
uint64_t FlipsAPlace() {
  const char* asked = std::getenv("EBB_DAMAGE_FLIPS");
  return asked == nullptr ? 34'000 : std::strtoull(asked, nullptr, 10);
}
// Likewise, of the bytes of records and headers each or every n-th.
uint64_t ByteStride() { return FlipsAPlace() < 34'000 ? 7 : 1; }
constexpr uint8_t kWholeByte = 0xff;

// Block b holds version b + 1, block 95 zeroes.
uint64_t VersionAt(uint64_t block) { return block + 1 < kBlocks ? block + 1 : 0; }

constexpr uint32_t kSegments = 24;
constexpr uint64_t kCacheBytes = (2 + 8 * kSegments) * kBlockBytes;
constexpr uint64_t kCapacityBytes = 3 << 20;

enum class Where { kCacheOnly, kCapacity, kBoth };

// A node whose every block is known.
class KnownNode {
 public:
  explicit KnownNode(Where where, Compression compression = Compression::kOff)
      : node_({.seed = 1,
               .volume_blocks = kBlocks,
               .segment_count = kSegments,
               .capacity_bytes = kCapacityBytes}) {
    node_.config().setting.Set(KnobId::kNvmeReadShare, 0);
    node_.config().setting.Set(KnobId::kCompression, static_cast<int64_t>(compression));
    Must(node_.Open());
    for (uint64_t block = 0; block + 1 < kBlocks; ++block) Write(block);
    Must(node_.volume().WriteZeroes((kBlocks - 1) * kBlockBytes, kBlockBytes, false));
    if (where != Where::kCacheOnly) Must(node_.volume().Drain(nullptr));
    if (where == Where::kBoth) {
      for (uint64_t block = 0; block + 1 < kBlocks; block += 9) Write(block);
    }
    // Without the buffers of the log: what it has must come from the device.
    Must(node_.volume().Close());
    Must(node_.Open());
  }

  CrashNode& node() { return node_; }

  // True: the right version; false: an error. Anything else fails the test.
  bool ReadsRight(uint64_t block, const std::string& where) {
    std::vector<std::byte> data(kBlockBytes);
    const absl::Status status = node_.volume().Read(block * kBlockBytes, data);
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << where << ": " << status;
      return false;
    }
    EXPECT_EQ(VersionOf(block, data), VersionAt(block)) << where << ", block " << block;
    return true;
  }

 private:
  static void Must(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }
  void Write(uint64_t block) {
    AlignedBuffer data = MakeBlock(block, VersionAt(block));
    Must(node_.volume().Write(block * kBlockBytes, data.span(), false));
  }

  CrashNode node_;
};

// Which block of the volume each block of `disk` holds: the one that a damaged byte makes
// unreadable.
std::map<uint64_t, uint64_t> FindData(KnownNode& known, FaultyDisk& disk, uint64_t disk_bytes) {
  std::map<uint64_t, uint64_t> found;
  for (uint64_t place = 0; place < disk_bytes; place += kBlockBytes) {
    disk.FlipBits(place + 1234, kWholeByte);
    for (uint64_t block = 0; block < kBlocks; ++block) {
      if (!known.ReadsRight(block, "finding data")) found[place] = block;
    }
    disk.FlipBits(place + 1234, kWholeByte);
  }
  return found;
}

// Flips random single bits of the data, one at a time: each is detected.
void FlipRandomBits(KnownNode& known, FaultyDisk& disk, uint64_t disk_bytes,
                    size_t data_blocks_min) {
  const std::map<uint64_t, uint64_t> data = FindData(known, disk, disk_bytes);
  ASSERT_GE(data.size(), data_blocks_min);
  const std::vector<std::pair<uint64_t, uint64_t>> places(data.begin(), data.end());
  Rng rng(11);
  for (uint64_t flip = 0; flip < FlipsAPlace() && !testing::Test::HasFailure(); ++flip) {
    const auto& [place, block] = places[rng.Below(places.size())];
    const uint64_t at = place + rng.Below(kBlockBytes);
    const auto mask = static_cast<uint8_t>(1 << rng.Below(8));
    disk.FlipBits(at, mask);
    EXPECT_FALSE(known.ReadsRight(block, "flipped")) << "bit " << int{mask} << " of byte " << at;
    disk.FlipBits(at, mask);
  }
  for (uint64_t block = 0; block < kBlocks; ++block) EXPECT_TRUE(known.ReadsRight(block, "mended"));
}

TEST(DamageTest, RandomBitsOfDirtyDataAreDetected) {
  KnownNode known(Where::kCacheOnly);
  FlipRandomBits(known, known.node().cache(), kCacheBytes, kBlocks - 1);
}

TEST(DamageTest, RandomBitsOfStoredDataAreDetected) {
  KnownNode known(Where::kCapacity);
  FlipRandomBits(known, known.node().capacity(0), kCapacityBytes, kBlocks / 2);
}

// Compressed units share device blocks with each other and with padding, so not every bit matters;
// none makes garbage.
TEST(DamageTest, RandomBitsOfCompressedDataNeverMakeGarbage) {
  for (const Compression codec : {Compression::kLz4, Compression::kZstd1}) {
    KnownNode known(Where::kCapacity, codec);
    FaultyDisk& disk = known.node().capacity(0);
    Rng rng(13);
    uint64_t detected = 0;
    for (uint64_t flip = 0; flip < FlipsAPlace() / 2 && !testing::Test::HasFailure(); ++flip) {
      // Just behind the first header: the content is so regular that all of it is here.
      const uint64_t at = kSegmentAreaStart + kBlockBytes + rng.Below(2 << 10);
      const auto mask = static_cast<uint8_t>(1 << rng.Below(8));
      disk.FlipBits(at, mask);
      // One block of each unit.
      for (uint64_t block = 0; block < kBlocks; block += 8) {
        if (!known.ReadsRight(block, "compressed")) ++detected;
      }
      disk.FlipBits(at, mask);
    }
    EXPECT_GT(detected, FlipsAPlace() / 200);
  }
}

// A damaged clean copy is not an error: the capacity device has the block.
TEST(DamageTest, RandomBitsOfCleanCopiesChangeNothing) {
  KnownNode known(Where::kCapacity);
  Rng rng(12);
  for (uint64_t flip = 0; flip < FlipsAPlace() / 8 && !testing::Test::HasFailure(); ++flip) {
    const uint64_t at = kBlockBytes * (1 + rng.Below(8 * kSegments)) + rng.Below(kBlockBytes);
    known.node().cache().FlipBits(at, kWholeByte);
    for (uint64_t block = 0; block < kBlocks; ++block) {
      EXPECT_TRUE(known.ReadsRight(block, "clean copy"));
    }
    known.node().cache().FlipBits(at, kWholeByte);
  }
}

// Starts the damaged node again and reads everything: right, or an error. False: it would not
// start.
bool StartsAndReads(KnownNode& known, const std::string& where) {
  if (!known.node().Open().ok()) return false;
  for (uint64_t block = 0; block < kBlocks; ++block) (void)known.ReadsRight(block, where);
  return true;
}

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows RowsOf(CrashNode& node, Table table) {
  Rows rows;
  EXPECT_TRUE(node.metadata()
                  .Scan(table, "", "",
                        [&](std::string_view key, std::string_view value) {
                          rows.emplace_back(key, value);
                          return true;
                        })
                  .ok());
  return rows;
}

// Goal: damage of any metadata record of a node is an error or harmless, never other data.
// Method: flip each byte of each record (in place of what RocksDB's own checksums would catch) of a
// node that has just this damage, start, read everything.
TEST(DamageTest, EveryFlippedByteOfMetadataIsAnErrorOrHarmless) {
  uint64_t bytes = 0;
  uint64_t refused = 0;
  for (size_t number = 0; number < kTableCount; ++number) {
    const auto table = static_cast<Table>(number);
    KnownNode pattern(Where::kBoth);
    for (const auto& [key, value] : RowsOf(pattern.node(), table)) {
      for (size_t i = 0; i < value.size(); i += ByteStride(), ++bytes) {
        KnownNode known(Where::kBoth);
        known.node().Kill();
        std::string damaged = value;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
        MetadataBatch batch;
        batch.Put(table, key, damaged);
        ASSERT_TRUE(known.node().metadata().Commit(batch, /*durable=*/true).ok());
        if (!StartsAndReads(known, fmt::format("table {}, byte {}", TableName(table), i))) {
          ++refused;
        }
        ASSERT_FALSE(HasFailure());
      }
    }
  }
  EXPECT_GT(bytes, 2000 / ByteStride());
  EXPECT_GT(refused, 100 / ByteStride()) << "the node's own records refuse a start";
}

// Likewise the headers of the cache log's groups.
TEST(DamageTest, FlippedBytesOfLogHeadersAreAnErrorOrHarmless) {
  KnownNode pattern(Where::kCacheOnly);
  const auto device = pattern.node().cache().Open();
  AlignedBuffer block(kBlockBytes);
  uint64_t headers = 0;
  uint64_t refused = 0;
  for (uint64_t place = kBlockBytes; place + kBlockBytes < kCacheBytes; place += kBlockBytes) {
    ASSERT_TRUE(device->Read(place, block.span()).ok());
    if (!DecodeHeader(block.span()).ok()) continue;
    ++headers;
    // The decoder's own test flips each byte of the block; here the fields, the entries and some of
    // the rest, which the same sum covers.
    for (uint64_t i = 0; i < kBlockBytes; i += i < 176 ? ByteStride() : 97) {
      KnownNode known(Where::kCacheOnly);
      known.node().Kill();
      known.node().cache().FlipBits(place + i, static_cast<uint8_t>(1 << (i % 8)));
      if (!StartsAndReads(known, fmt::format("header at {}, byte {}", place, i))) ++refused;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(headers, 10U);
  EXPECT_GT(refused, headers) << "a log with a hole in it was taken for whole";
}

}  // namespace
}  // namespace ebb::storage
