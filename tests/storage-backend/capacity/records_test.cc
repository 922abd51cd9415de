#include "storage-backend/capacity/records.h"

#include <functional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/rng.h"
#include "storage-backend/capacity/byte_io.h"

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

MapPage SamplePage() {
  MapPage page{};
  page[0] = MapEntry::Unit({0xfedcba987654, 31}, 0x89abcdef);
  page[63] = MapEntry::Direct(6, (MapEntry::kNumberLimit - 1) * kCapacityBlockBytes, 1);
  page[64] = MapEntry::Direct(0, 65536, 0);
  page[127] = MapEntry::Unit({1, 0}, 7);
  return page;
}

std::vector<MapChange> SampleChanges() {
  return {{0, MapEntry::Direct(2, 8192, 5)}, {1, MapEntry()}, {900, MapEntry::Unit({7, 3}, 9)}};
}

std::vector<SegmentChange> SampleSegments() {
  return {{{2, 5}, {SegmentState::kSealed, 77, 262144, 4124, 4100}}, {{0, 9}, {}}};
}

TEST(RecordsTest, MapEntriesSayWhatTheyWereMadeOf) {
  const MapPage page = SamplePage();
  EXPECT_TRUE(page[0].is_unit());
  EXPECT_EQ(page[0].ref(), (BlockRef{0xfedcba987654, 31}));
  EXPECT_EQ(page[0].crc32c(), 0x89abcdef);
  EXPECT_TRUE(page[63].is_direct());
  EXPECT_EQ(page[63].device(), 6);
  EXPECT_EQ(page[63].device_offset(), (MapEntry::kNumberLimit - 1) * kCapacityBlockBytes);
  EXPECT_TRUE(page[64].mapped());
  EXPECT_FALSE(page[1].mapped());
  for (const MapEntry& entry : page) {
    bool valid = true;
    EXPECT_EQ(MapEntry::FromStored(entry.place(), entry.crc32c(), valid), entry);
    EXPECT_TRUE(valid);
  }
  for (const uint64_t place : {uint64_t{1}, uint64_t{3} << 62, uint64_t{1} << 62,
                               (uint64_t{1} << 62) | (uint64_t{32} << 48) | 1}) {
    bool valid = true;
    (void)MapEntry::FromStored(place, 0, valid);
    EXPECT_FALSE(valid) << place;
  }
}

TEST(RecordsTest, PagesComeBackAndEmptyOnesAreNothing) {
  const std::string value = EncodePage(77, SamplePage());

  EXPECT_EQ(*DecodePage(77, value), SamplePage());
  EXPECT_EQ(ParsePageKey(PageKey(0x0102030405060708)), 0x0102030405060708u);
  EXPECT_EQ(value.size(), 16u + 4u * 12u + 4u);
  EXPECT_EQ(EncodePage(77, MapPage{}), "");
}

TEST(RecordsTest, JournalRecordsComeBackAndStayShort) {
  const std::string value = EncodeJournal(4, SampleChanges(), SampleSegments());

  const absl::StatusOr<JournalRecord> record = DecodeJournal(4, value);

  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->blocks, SampleChanges());
  EXPECT_EQ(record->segments, SampleSegments());
  EXPECT_EQ(value.size(), 1u + 13u + 13u + 14u + 1u + 2u * 26u + 4u);
  EXPECT_TRUE(DecodeJournal(1, EncodeJournal(1, {}, {}))->blocks.empty());
}

TEST(RecordsTest, KeysSortAsNumbersDo) {
  EXPECT_LT(PageKey(255), PageKey(256));
  EXPECT_LT(JournalKey(255), JournalKey(256));
  EXPECT_LT(UnitKey(1), UnitFingerprintsKey(1));
  EXPECT_LT(UnitFingerprintsKey(1), UnitKey(2));
  EXPECT_LT(SegmentKey({0, 9}), ExtentKey({0, 9}, 0));
  EXPECT_LT(ExtentKey({0, 9}, UINT32_MAX), SegmentKey({0, 10}));
  EXPECT_LT(SegmentKey({0, UINT32_MAX}), SegmentKey({1, 0}));
}

TEST(RecordsTest, UnitsComeBack) {
  const UnitRecord record = SampleUnit();

  EXPECT_EQ(*DecodeUnit(9, EncodeUnit(9, record)), record);
  const std::vector<BlockFingerprint> fingerprints = {{1, SampleFingerprint(1)},
                                                      {31, SampleFingerprint(2)}};
  EXPECT_EQ(*DecodeUnitFingerprints(9, EncodeUnitFingerprints(9, fingerprints)), fingerprints);
}

// Nodes that were made before blocks were sampled have them.
TEST(RecordsTest, FingerprintsWithoutIndicesAreReadInOrder) {
  for (const int count : {1, 8, 32}) {
    std::string value;
    std::vector<BlockFingerprint> expected;
    for (uint8_t i = 0; i < count; ++i) {
      expected.push_back({i, SampleFingerprint(i)});
      value += FingerprintKey(expected.back().fingerprint);
    }
    const std::string sealed = UnitFingerprintsKey(9) + value;
    ByteWriter crc;
    crc.Fixed(Crc32c(std::as_bytes(std::span(sealed))));

    EXPECT_EQ(*DecodeUnitFingerprints(9, value + crc.Take()), expected);
  }
}

TEST(RecordsTest, FingerprintsOfNoUnitAreMalformed) {
  const Fingerprint any = SampleFingerprint(1);
  for (const auto& [first, second] : {std::pair{5, 5}, std::pair{6, 5}, std::pair{1, 32}}) {
    const std::vector<BlockFingerprint> list = {{static_cast<uint8_t>(first), any},
                                                {static_cast<uint8_t>(second), any}};
    EXPECT_FALSE(DecodeUnitFingerprints(9, EncodeUnitFingerprints(9, list)).ok());
  }
  EXPECT_FALSE(DecodeUnitFingerprints(9, EncodeUnitFingerprints(9, {})).ok());
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

  for (const ExtentContent& content :
       {ExtentContent{{5, 6, 7, 100, 102, 103}, {}},
        ExtentContent{{}, {0, 1, 9, uint64_t{1} << 40}}, ExtentContent{{8}, {9}}}) {
    const std::string value = EncodeExtent({2, 5}, 8192, content);
    ExtentContent decoded;
    ASSERT_TRUE(DecodeExtent(ExtentKey({2, 5}, 8192), value, decoded).ok());
    EXPECT_EQ(decoded, content);
  }
  EXPECT_EQ(*ParseExtentKey(ExtentKey({2, 5}, 8192)), (SegmentId{2, 5}));
  EXPECT_EQ(*ParseSegmentKey(SegmentKey({2, 5})), (SegmentId{2, 5}));
  EXPECT_FALSE(ParseSegmentKey(ExtentKey({2, 5}, 8192)).ok());
}

TEST(RecordsTest, NodeRecordsComeBack) {
  const FormatRecord format{{1, 2, 3}, 1 << 20, {16 << 20, 32 << 20}};
  EXPECT_EQ(*DecodeFormat(EncodeFormat(format)), format);
  const TotalsRecord totals{5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(*DecodeTotals(EncodeTotals(totals)), totals);
}

// Goal: a damaged record is an error, never another record.
// Method: of every kind of record, flip every bit and cut at every length.
TEST(RecordsTest, EveryFlippedBitAndEveryCutIsDetected) {
  const Fingerprint fingerprint = SampleFingerprint(7);
  const std::vector<std::pair<std::string, std::function<bool(const std::string&)>>> kinds = {
      {EncodePage(77, SamplePage()),
       [](const std::string& value) { return DecodePage(77, value).ok(); }},
      {EncodeJournal(4, SampleChanges(), SampleSegments()),
       [](const std::string& value) { return DecodeJournal(4, value).ok(); }},
      {EncodeUnit(9, SampleUnit()),
       [](const std::string& value) { return DecodeUnit(9, value).ok(); }},
      {EncodeUnitFingerprints(9, std::vector<BlockFingerprint>{{3, fingerprint}}),
       [](const std::string& value) { return DecodeUnitFingerprints(9, value).ok(); }},
      {EncodeFingerprintEntry(fingerprint, {12, 3}),
       [&](const std::string& value) {
         return DecodeFingerprintEntry(FingerprintKey(fingerprint), value).ok();
       }},
      {EncodeSegment({2, 5}, {SegmentState::kSealed, 77, 262144, 4124, 4100}),
       [](const std::string& value) {
         return DecodeSegment({2, 5}, value).ok();
       }},
      {EncodeExtent({2, 5}, 0, {{1, 2, 9}, {4}}),
       [](const std::string& value) {
         ExtentContent content;
         return DecodeExtent(ExtentKey({2, 5}, 0), value, content).ok();
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

// Found by capacity_records_fuzz: runs whose numbers wrap around, and many that ask for memory.
TEST(RecordsTest, ExtentsOfRunsThatMakeNoSenseAreRefused) {
  const std::string key = ExtentKey({.device = 1, .segment = 5}, 8192);
  const auto decode = [&](std::string body) {
    const uint32_t crc = Crc32c(std::as_bytes(std::span(body)),
                                Crc32c(std::as_bytes(std::span(std::string_view(key)))));
    body.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    ExtentContent content;
    return DecodeExtent(key, body, content);
  };
  ByteWriter wraps;
  wraps.Varint(2);
  for (const uint64_t number : {uint64_t{4}, uint64_t{4}, ~uint64_t{0}, uint64_t{1}}) {
    wraps.Varint(number);
  }
  wraps.Varint(0);
  EXPECT_EQ(decode(wraps.Take()).code(), absl::StatusCode::kDataLoss);
  ByteWriter huge;
  huge.Varint(1000);
  for (int run = 0; run < 1000; ++run) {
    huge.Varint(1);
    huge.Varint(2000);
  }
  huge.Varint(0);
  EXPECT_EQ(decode(huge.Take()).code(), absl::StatusCode::kDataLoss);
}

TEST(RecordsTest, ARecordUnderAnotherKeyIsDetected) {
  EXPECT_FALSE(DecodePage(78, EncodePage(77, SamplePage())).ok());
  EXPECT_FALSE(DecodeJournal(5, EncodeJournal(4, SampleChanges(), {})).ok());
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
    ExtentContent content;
    EXPECT_FALSE(DecodePage(1, value).ok() || DecodeJournal(1, value).ok() ||
                 DecodeUnit(1, value).ok() || DecodeSegment({0, 1}, value).ok() ||
                 DecodeFormat(value).ok() || DecodeTotals(value).ok() ||
                 DecodeExtent("key", value, content).ok());
  }
}

}  // namespace
}  // namespace ebb::storage
