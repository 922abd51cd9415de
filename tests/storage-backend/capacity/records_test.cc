#include "storage-backend/capacity/records.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb::storage {
namespace {

UnitRecord SampleUnit() {
  UnitRecord record;
  record.codec = Compression::kZstd1;
  record.fingerprinted = true;
  record.device = 3;
  record.offset = 0x123456789a00;
  record.stored_bytes = 5000;
  record.stored_mask = 0b1011;
  record.blocks.push_back({.crc32c = 0xdeadbeef, .references = 1});
  record.blocks.push_back({.crc32c = 1, .references = 300});
  record.blocks.push_back({.crc32c = 2, .references = 0});
  record.blocks.push_back({.crc32c = 3, .references = 0});
  return record;
}

Fingerprint SampleFingerprint(uint8_t fill) {
  Fingerprint fingerprint;
  fingerprint.fill(std::byte{fill});
  return fingerprint;
}

TEST(RecordsTest, MapEntriesComeBackAndStayShort) {
  const MapEntry entry{{0xfedcba987654, 31}, 0x89abcdef};
  const std::string value = EncodeMapEntry(77, entry);

  EXPECT_EQ(*DecodeMapEntry(77, value), entry);
  EXPECT_EQ(ParseMapKey(MapKey(0x0102030405060708)), 0x0102030405060708u);
  EXPECT_EQ(value.size(), 15u);  // std::string holds that without an allocation
}

TEST(RecordsTest, KeysSortAsNumbersDo) {
  EXPECT_LT(MapKey(255), MapKey(256));
  EXPECT_LT(UnitKey(1), UnitFingerprintsKey(1));
  EXPECT_LT(UnitFingerprintsKey(1), UnitKey(2));
  EXPECT_LT(SegmentKey({0, 9}), ExtentKey({0, 9}, 0));
  EXPECT_LT(ExtentKey({0, 9}, UINT32_MAX), SegmentKey({0, 10}));
  EXPECT_LT(SegmentKey({0, UINT32_MAX}), SegmentKey({1, 0}));
}

TEST(RecordsTest, UnitsComeBack) {
  const UnitRecord record = SampleUnit();

  EXPECT_EQ(*DecodeUnit(9, EncodeUnit(9, record)), record);
  const std::vector<Fingerprint> fingerprints = {SampleFingerprint(1), SampleFingerprint(2)};
  EXPECT_EQ(*DecodeUnitFingerprints(9, EncodeUnitFingerprints(9, fingerprints)), fingerprints);
}

TEST(RecordsTest, UnitsCountWhatIsAlive) {
  UnitRecord record = SampleUnit();
  EXPECT_EQ(record.StoredBlocks(), 3u);
  EXPECT_EQ(record.LiveBlocks(), 2u);
  EXPECT_EQ(record.Rank(3), 2u);
  EXPECT_EQ(record.PaddedBytes(), 5120u);
  EXPECT_EQ(record.LiveDataBytes(), 5120u);
  EXPECT_EQ(record.LiveBytes(), 5120u + kUnitEntryBytes);
  EXPECT_EQ(record.ExpectedBytes(), 3584u + kUnitEntryBytes);  // two thirds of 5000, padded

  record.blocks[0].references = 0;
  EXPECT_EQ(record.LiveDataBytes(), kCapacityBlockBytes);

  record.blocks[1].references = 0;
  EXPECT_EQ(record.LiveBytes(), 0u);
}

TEST(RecordsTest, SegmentsAndExtentsComeBack) {
  const SegmentRecord segment{SegmentState::kSealed, 77, 262144, 4124, 4100};
  EXPECT_EQ(*DecodeSegment({2, 5}, EncodeSegment({2, 5}, segment)), segment);

  const std::vector<uint64_t> units = {5, 6, 7, 100, 102, 103};
  const std::string value = EncodeExtentUnits({2, 5}, 8192, units);
  std::vector<uint64_t> decoded;
  ASSERT_TRUE(DecodeExtentUnits(ExtentKey({2, 5}, 8192), value, decoded).ok());
  EXPECT_EQ(decoded, units);

  bool is_extent = false;
  uint32_t offset = 0;
  EXPECT_EQ(*ParseSegmentKey(ExtentKey({2, 5}, 8192), is_extent, offset), (SegmentId{2, 5}));
  EXPECT_TRUE(is_extent);
  EXPECT_EQ(offset, 8192u);
}

TEST(RecordsTest, NodeRecordsComeBack) {
  const FormatRecord format{{1, 2, 3}, 1 << 20, {16 << 20, 32 << 20}};
  EXPECT_EQ(*DecodeFormat(EncodeFormat(format)), format);
  const TotalsRecord totals{5, 6, 7, 8, 9};
  EXPECT_EQ(*DecodeTotals(EncodeTotals(totals)), totals);
}

// Goal: a damaged record is an error, never another record.
// Method: of every kind of record, flip every bit and cut at every length.
TEST(RecordsTest, EveryFlippedBitAndEveryCutIsDetected) {
  const Fingerprint fingerprint = SampleFingerprint(7);
  const std::vector<std::pair<std::string, std::function<bool(const std::string&)>>> kinds = {
      {EncodeMapEntry(77, {{12, 3}, 99}),
       [](const std::string& value) { return DecodeMapEntry(77, value).ok(); }},
      {EncodeUnit(9, SampleUnit()),
       [](const std::string& value) { return DecodeUnit(9, value).ok(); }},
      {EncodeUnitFingerprints(9, {fingerprint}),
       [](const std::string& value) { return DecodeUnitFingerprints(9, value).ok(); }},
      {EncodeFingerprintEntry(fingerprint, {12, 3}),
       [&](const std::string& value) {
         return DecodeFingerprintEntry(FingerprintKey(fingerprint), value).ok();
       }},
      {EncodeSegment({2, 5}, {SegmentState::kSealed, 77, 262144, 4124, 4100}),
       [](const std::string& value) {
         return DecodeSegment({2, 5}, value).ok();
       }},
      {EncodeExtentUnits({2, 5}, 0, {1, 2, 9}),
       [](const std::string& value) {
         std::vector<uint64_t> units;
         return DecodeExtentUnits(ExtentKey({2, 5}, 0), value, units).ok();
       }},
      {EncodeFormat({{1}, 1 << 20, {16 << 20}}),
       [](const std::string& value) { return DecodeFormat(value).ok(); }},
      {EncodeTotals({5, 6, 7, 8, 9}),
       [](const std::string& value) { return DecodeTotals(value).ok(); }},
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto& [value, decodes] = kinds[kind];
    ASSERT_TRUE(decodes(value)) << kind;
    for (size_t i = 0; i < value.size(); ++i) {
      EXPECT_FALSE(decodes(value.substr(0, i))) << "kind " << kind << " cut at " << i;
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = value;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
        EXPECT_FALSE(decodes(damaged)) << "kind " << kind << " byte " << i << " bit " << bit;
      }
    }
    EXPECT_FALSE(decodes(value + '\0')) << kind;
  }
}

TEST(RecordsTest, ARecordUnderAnotherKeyIsDetected) {
  EXPECT_FALSE(DecodeMapEntry(78, EncodeMapEntry(77, {{12, 3}, 99})).ok());
  EXPECT_FALSE(DecodeUnit(10, EncodeUnit(9, SampleUnit())).ok());
  EXPECT_FALSE(
      DecodeSegment({2, 6}, EncodeSegment({2, 5}, {SegmentState::kSealed, 1, 8, 8, 8})).ok());
}

// Goal: decoders are safe on any bytes (run under asan).
TEST(RecordsTest, RandomBytesAreRefused) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string value(rng.Below(64), '\0');
    for (char& byte : value) byte = static_cast<char>(rng.Next());
    std::vector<uint64_t> units;
    EXPECT_FALSE(DecodeMapEntry(1, value).ok() || DecodeUnit(1, value).ok() ||
                 DecodeSegment({0, 1}, value).ok() || DecodeFormat(value).ok() ||
                 DecodeTotals(value).ok() || DecodeExtentUnits("key", value, units).ok());
  }
}

}  // namespace
}  // namespace ebb::storage
