#include "storage-backend/capacity/records.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "storage-backend/capacity/byte_io.h"

namespace ebb::storage {
namespace {

constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kUnitLimit = uint64_t{1} << 48;  // the map spends 6 bytes on a unit's number
constexpr size_t kCrcBytes = 4;
constexpr char kFingerprintsSuffix = 'f';
constexpr uint8_t kFingerprintedFlag = 1;
constexpr size_t kStoredGrain = 512;

uint32_t RecordCrc(std::string_view key, std::string_view body) {
  return Crc32c(std::as_bytes(std::span(body)), Crc32c(std::as_bytes(std::span(key))));
}

std::string Seal(std::string_view key, std::string body) {
  const uint32_t crc = RecordCrc(key, body);
  ByteWriter writer;
  writer.Bytes(body);
  writer.Fixed(crc);
  return writer.Take();
}

// The value without its checksum, or nothing when the checksum is wrong.
absl::StatusOr<std::string_view> Unseal(std::string_view key, std::string_view value,
                                        std::string_view what) {
  if (value.size() >= kCrcBytes) {
    const std::string_view body = value.substr(0, value.size() - kCrcBytes);
    ByteReader crc(value.substr(body.size()));
    if (crc.Fixed<uint32_t>() == RecordCrc(key, body)) return body;
  }
  return absl::DataLossError(absl::StrCat("metadata: the record of ", std::string(what),
                                          " is damaged (", value.size(), " bytes)"));
}

absl::Status Malformed(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("metadata: the record of ", std::string(what), " makes no sense"));
}

template <std::unsigned_integral Number>
void AppendBigEndian(std::string& key, Number number) {
  for (size_t i = sizeof(Number); i-- > 0;) key.push_back(static_cast<char>(number >> (8 * i)));
}

template <std::unsigned_integral Number>
Number ReadBigEndian(std::string_view bytes) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    number =
        static_cast<Number>((static_cast<uint64_t>(number) << 8) | static_cast<uint8_t>(bytes[i]));
  }
  return number;
}

// A reference in 7 bytes: 6 of the unit, 1 of the index.
void WriteRef(ByteWriter& writer, const BlockRef& ref) {
  EBB_CHECK(ref.unit < kUnitLimit);
  writer.Fixed(static_cast<uint32_t>(ref.unit));
  writer.Fixed(static_cast<uint16_t>(ref.unit >> 32));
  writer.Fixed(ref.index);
}

BlockRef ReadRef(ByteReader& reader) {
  BlockRef ref;
  ref.unit = reader.Fixed<uint32_t>();
  ref.unit |= static_cast<uint64_t>(reader.Fixed<uint16_t>()) << 32;
  ref.index = reader.Fixed<uint8_t>();
  return ref;
}

std::string UnitName(uint64_t unit) { return absl::StrCat("unit ", unit); }

std::string SegmentName(SegmentId id) {
  return absl::StrCat("segment ", id.segment, " of device ", static_cast<int>(id.device));
}

}  // namespace

std::string MapKey(uint64_t block) {
  std::string key;
  AppendBigEndian(key, block);
  return key;
}

uint64_t ParseMapKey(std::string_view key) {
  return key.size() == 8 ? ReadBigEndian<uint64_t>(key) : UINT64_MAX;
}

std::string EncodeMapEntry(uint64_t block, const MapEntry& entry) {
  // 15 bytes with the checksum: short enough for std::string to hold without an allocation.
  ByteWriter writer;
  WriteRef(writer, entry.ref);
  writer.Fixed(entry.crc32c);
  return Seal(MapKey(block), writer.Take());
}

absl::StatusOr<MapEntry> DecodeMapEntry(uint64_t block, std::string_view value) {
  const std::string what = absl::StrCat("block ", block);
  const absl::StatusOr<std::string_view> body = Unseal(MapKey(block), value, what);
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  MapEntry entry;
  entry.ref = ReadRef(reader);
  entry.crc32c = reader.Fixed<uint32_t>();
  if (!reader.Done() || entry.ref.index >= kUnitBlocksMax) return Malformed(what);
  return entry;
}

uint32_t UnitRecord::Rank(uint8_t index) const {
  return static_cast<uint32_t>(std::popcount(stored_mask & ((uint32_t{1} << index) - 1)));
}

uint32_t UnitRecord::StoredBlocks() const {
  return static_cast<uint32_t>(std::popcount(stored_mask));
}

uint32_t UnitRecord::LiveMask() const {
  uint32_t mask = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].references != 0) mask |= uint32_t{1} << i;
  }
  return mask;
}

uint32_t UnitRecord::LiveBlocks() const { return static_cast<uint32_t>(std::popcount(LiveMask())); }

uint64_t UnitRecord::PaddedBytes() const {
  return (stored_bytes + kStoredGrain - 1) / kStoredGrain * kStoredGrain;
}

uint64_t UnitRecord::LiveDataBytes() const {
  return std::min<uint64_t>(PaddedBytes(), LiveBlocks() * kCapacityBlockBytes);
}

uint64_t UnitRecord::LiveBytes() const {
  const uint64_t data = LiveDataBytes();
  return data == 0 ? 0 : data + kUnitEntryBytes;
}

uint64_t UnitRecord::ExpectedBytes() const {
  const uint64_t live = LiveBlocks();
  if (live == 0) return 0;
  const uint64_t share = stored_bytes * live / StoredBlocks();
  return std::min(LiveBytes(),
                  (share + kStoredGrain - 1) / kStoredGrain * kStoredGrain + kUnitEntryBytes);
}

std::string UnitKey(uint64_t unit) {
  std::string key;
  AppendBigEndian(key, unit);
  return key;
}

std::string UnitFingerprintsKey(uint64_t unit) { return UnitKey(unit) + kFingerprintsSuffix; }

absl::StatusOr<uint64_t> ParseUnitKey(std::string_view key, bool& is_fingerprints) {
  is_fingerprints = key.size() == 9 && key[8] == kFingerprintsSuffix;
  if (key.size() != 8 && !is_fingerprints) {
    return absl::DataLossError(
        absl::StrCat("metadata: table units has a key of ", key.size(), " bytes"));
  }
  return ReadBigEndian<uint64_t>(key);
}

std::string EncodeUnit(uint64_t unit, const UnitRecord& record) {
  ByteWriter writer;
  writer.Fixed(static_cast<uint8_t>(record.codec));
  writer.Fixed(record.fingerprinted ? kFingerprintedFlag : uint8_t{0});
  writer.Fixed(record.device);
  writer.Fixed(static_cast<uint8_t>(record.blocks.size()));
  writer.Fixed(record.offset);
  writer.Fixed(record.stored_bytes);
  writer.Fixed(record.stored_mask);
  for (const UnitRecord::Block& block : record.blocks) writer.Fixed(block.crc32c);
  for (const UnitRecord::Block& block : record.blocks) writer.Varint(block.references);
  return Seal(UnitKey(unit), writer.Take());
}

absl::StatusOr<UnitRecord> DecodeUnit(uint64_t unit, std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(UnitKey(unit), value, UnitName(unit));
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  UnitRecord record;
  const auto codec = reader.Fixed<uint8_t>();
  const auto flags = reader.Fixed<uint8_t>();
  record.device = reader.Fixed<uint8_t>();
  const auto count = reader.Fixed<uint8_t>();
  record.offset = reader.Fixed<uint64_t>();
  record.stored_bytes = reader.Fixed<uint32_t>();
  record.stored_mask = reader.Fixed<uint32_t>();
  if (codec > static_cast<uint8_t>(Compression::kZstd3) || (flags & ~kFingerprintedFlag) != 0 ||
      count == 0 || count > kUnitBlocksMax) {
    return Malformed(UnitName(unit));
  }
  record.codec = static_cast<Compression>(codec);
  record.fingerprinted = flags != 0;
  record.blocks.resize(count);
  for (UnitRecord::Block& block : record.blocks) block.crc32c = reader.Fixed<uint32_t>();
  for (UnitRecord::Block& block : record.blocks) {
    block.references = static_cast<uint32_t>(reader.Varint());
  }
  const bool whole_blocks = record.stored_bytes == record.StoredBlocks() * kCapacityBlockBytes;
  if (!reader.Done() || (record.codec == Compression::kOff && !whole_blocks) ||
      record.stored_bytes == 0 || record.stored_bytes > kUnitBlocksMax * kCapacityBlockBytes ||
      (uint64_t{record.stored_mask} >> count) != 0 ||
      (record.LiveMask() & ~record.stored_mask) != 0) {
    return Malformed(UnitName(unit));
  }
  return record;
}

std::string EncodeUnitFingerprints(uint64_t unit, const std::vector<Fingerprint>& fingerprints) {
  std::string body;
  for (const Fingerprint& fingerprint : fingerprints) body += FingerprintKey(fingerprint);
  return Seal(UnitFingerprintsKey(unit), std::move(body));
}

absl::StatusOr<std::vector<Fingerprint>> DecodeUnitFingerprints(uint64_t unit,
                                                                std::string_view value) {
  const std::string what = absl::StrCat("fingerprints of unit ", unit);
  const absl::StatusOr<std::string_view> body = Unseal(UnitFingerprintsKey(unit), value, what);
  if (!body.ok()) return body.status();
  if (body->size() % sizeof(Fingerprint) != 0) return Malformed(what);
  std::vector<Fingerprint> fingerprints(body->size() / sizeof(Fingerprint));
  std::memcpy(fingerprints.data(), body->data(), body->size());
  return fingerprints;
}

std::string FingerprintKey(const Fingerprint& fingerprint) {
  return std::string(reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size());
}

std::string EncodeFingerprintEntry(const Fingerprint& fingerprint, const BlockRef& ref) {
  ByteWriter writer;
  WriteRef(writer, ref);
  return Seal(FingerprintKey(fingerprint), writer.Take());
}

absl::StatusOr<BlockRef> DecodeFingerprintEntry(std::string_view key, std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(key, value, "a fingerprint");
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  const BlockRef ref = ReadRef(reader);
  if (!reader.Done() || ref.index >= kUnitBlocksMax) return Malformed("a fingerprint");
  return ref;
}

std::string SegmentKey(SegmentId id) {
  std::string key;
  AppendBigEndian(key, id.device);
  AppendBigEndian(key, id.segment);
  return key;
}

std::string EncodeSegment(SegmentId id, const SegmentRecord& record) {
  ByteWriter writer;
  writer.Fixed(static_cast<uint8_t>(record.state));
  writer.Fixed(record.sequence);
  writer.Fixed(record.written_bytes);
  writer.Fixed(record.live_bytes);
  writer.Fixed(record.expected_bytes);
  return Seal(SegmentKey(id), writer.Take());
}

absl::StatusOr<SegmentRecord> DecodeSegment(SegmentId id, std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(SegmentKey(id), value, SegmentName(id));
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  SegmentRecord record;
  const auto state = reader.Fixed<uint8_t>();
  record.sequence = reader.Fixed<uint64_t>();
  record.written_bytes = reader.Fixed<uint32_t>();
  record.live_bytes = reader.Fixed<uint32_t>();
  record.expected_bytes = reader.Fixed<uint32_t>();
  if (!reader.Done() || state == 0 || state > static_cast<uint8_t>(SegmentState::kSealed) ||
      record.live_bytes > record.written_bytes || record.expected_bytes > record.live_bytes) {
    return Malformed(SegmentName(id));
  }
  record.state = static_cast<SegmentState>(state);
  return record;
}

std::string ExtentKey(SegmentId id, uint32_t offset_in_segment) {
  std::string key = SegmentKey(id);
  AppendBigEndian(key, offset_in_segment);
  return key;
}

std::string EncodeExtentUnits(SegmentId id, uint32_t offset_in_segment,
                              const std::vector<uint64_t>& units) {
  // Runs of consecutive numbers, as (gap to the previous run, length): a fresh extent is one run.
  ByteWriter writer;
  uint64_t next = 0;
  for (size_t i = 0; i < units.size();) {
    size_t run = 1;
    while (i + run < units.size() && units[i + run] == units[i] + run) ++run;
    EBB_CHECK(units[i] >= next);
    writer.Varint(units[i] - next);
    writer.Varint(run);
    next = units[i] + run;
    i += run;
  }
  return Seal(ExtentKey(id, offset_in_segment), writer.Take());
}

absl::Status DecodeExtentUnits(std::string_view key, std::string_view value,
                               std::vector<uint64_t>& units) {
  const absl::StatusOr<std::string_view> body = Unseal(key, value, "an extent");
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  uint64_t next = 0;
  while (reader.ok() && !reader.Done()) {
    next += reader.Varint();
    const uint64_t run = reader.Varint();
    if (!reader.ok() || run > kExtentBytesMax / kStoredGrain) return Malformed("an extent");
    for (uint64_t i = 0; i < run; ++i) units.push_back(next + i);
    next += run;
  }
  return reader.Done() ? absl::OkStatus() : Malformed("an extent");
}

absl::StatusOr<SegmentId> ParseSegmentKey(std::string_view key, bool& is_extent,
                                          uint32_t& offset_in_segment) {
  is_extent = key.size() == 9;
  if (key.size() != 5 && !is_extent) {
    return absl::DataLossError(
        absl::StrCat("metadata: table segments has a key of ", key.size(), " bytes"));
  }
  offset_in_segment = is_extent ? ReadBigEndian<uint32_t>(key.substr(5)) : 0;
  return SegmentId{static_cast<uint8_t>(key[0]), ReadBigEndian<uint32_t>(key.substr(1, 4))};
}

std::string EncodeFormat(const FormatRecord& record) {
  ByteWriter writer;
  writer.Fixed(kFormatVersion);
  writer.Bytes({reinterpret_cast<const char*>(record.node_uuid.data()), record.node_uuid.size()});
  writer.Fixed(record.segment_bytes);
  writer.Fixed(static_cast<uint8_t>(record.device_bytes.size()));
  for (const uint64_t bytes : record.device_bytes) writer.Fixed(bytes);
  return Seal(kFormatKey, writer.Take());
}

absl::StatusOr<FormatRecord> DecodeFormat(std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(kFormatKey, value, "the format");
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  if (const auto version = reader.Fixed<uint32_t>(); version != kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("metadata: capacity format ", version,
                                                      " is not the one this version reads (",
                                                      kFormatVersion, ")"));
  }
  FormatRecord record;
  const std::string_view uuid = reader.Bytes(record.node_uuid.size());
  if (reader.ok()) std::memcpy(record.node_uuid.data(), uuid.data(), uuid.size());
  record.segment_bytes = reader.Fixed<uint32_t>();
  record.device_bytes.resize(reader.Fixed<uint8_t>());
  for (uint64_t& bytes : record.device_bytes) bytes = reader.Fixed<uint64_t>();
  if (!reader.Done() || record.device_bytes.empty() ||
      record.segment_bytes % kCapacityBlockBytes != 0 || record.segment_bytes == 0) {
    return Malformed("the format");
  }
  return record;
}

std::string EncodeTotals(const TotalsRecord& record) {
  ByteWriter writer;
  for (const uint64_t number : {record.next_unit, record.next_sequence, record.mapped_blocks,
                                record.unique_blocks, record.stored_bytes}) {
    writer.Fixed(number);
  }
  return Seal(kTotalsKey, writer.Take());
}

absl::StatusOr<TotalsRecord> DecodeTotals(std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(kTotalsKey, value, "the totals");
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  TotalsRecord record;
  for (uint64_t* number : {&record.next_unit, &record.next_sequence, &record.mapped_blocks,
                           &record.unique_blocks, &record.stored_bytes}) {
    *number = reader.Fixed<uint64_t>();
  }
  if (!reader.Done() || record.next_unit == 0 || record.next_unit > kUnitLimit) {
    return Malformed("the totals");
  }
  return record;
}

}  // namespace ebb::storage
