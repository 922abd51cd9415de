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

constexpr uint32_t kFormatVersion = 2;
constexpr uint64_t kUnitLimit = MapEntry::kNumberLimit;
constexpr size_t kCrcBytes = 4;
constexpr char kFingerprintsSuffix = 'f';
constexpr uint8_t kFingerprintedFlag = 1;
constexpr size_t kStoredGrain = 512;

uint32_t RecordCrc(std::string_view key, std::string_view body) {
  return Crc32c(std::as_bytes(std::span(body)), Crc32c(std::as_bytes(std::span(key))));
}

std::string Seal(std::string_view key, std::string body) {
  const uint32_t crc = RecordCrc(key, body);
  for (size_t i = 0; i < kCrcBytes; ++i) body.push_back(static_cast<char>(crc >> (8 * i)));
  return body;
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

std::string PageKey(uint64_t page) {
  std::string key;
  AppendBigEndian(key, page);
  return key;
}

uint64_t ParsePageKey(std::string_view key) {
  return key.size() == 8 ? ReadBigEndian<uint64_t>(key) : UINT64_MAX;
}

std::string EncodePage(uint64_t page, const MapPage& entries) {
  std::array<uint64_t, kPageBlocks / 64> mapped{};
  for (size_t i = 0; i < kPageBlocks; ++i) {
    if (entries[i].mapped()) mapped[i / 64] |= uint64_t{1} << (i % 64);
  }
  if (std::all_of(mapped.begin(), mapped.end(), [](uint64_t word) { return word == 0; })) return "";
  ByteWriter writer;
  writer.Reserve(sizeof mapped + kPageBlocks * sizeof(MapEntry) + kCrcBytes);
  for (const uint64_t word : mapped) writer.Fixed(word);
  for (const MapEntry& entry : entries) {
    if (!entry.mapped()) continue;
    writer.Fixed(entry.place());
    writer.Fixed(entry.crc32c());
  }
  return Seal(PageKey(page), writer.Take());
}

absl::StatusOr<MapPage> DecodePage(uint64_t page, std::string_view value) {
  const std::string what = absl::StrCat("blocks ", page * kPageBlocks, " to ",
                                        page * kPageBlocks + kPageBlocks - 1, " in the map");
  const absl::StatusOr<std::string_view> body = Unseal(PageKey(page), value, what);
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  std::array<uint64_t, kPageBlocks / 64> mapped{};
  for (uint64_t& word : mapped) word = reader.Fixed<uint64_t>();
  MapPage entries;
  bool valid = true;
  for (size_t i = 0; i < kPageBlocks; ++i) {
    if ((mapped[i / 64] >> (i % 64) & 1) == 0) continue;
    const auto place = reader.Fixed<uint64_t>();
    const auto crc32c = reader.Fixed<uint32_t>();
    entries[i] = MapEntry::FromStored(place, crc32c, valid);
    valid = valid && entries[i].mapped();
  }
  if (!reader.Done() || !valid) return Malformed(what);
  return entries;
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

std::string EncodeUnitFingerprints(uint64_t unit, std::span<const BlockFingerprint> fingerprints) {
  std::string body;
  for (const BlockFingerprint& block : fingerprints) {
    body += static_cast<char>(block.index);
    body += FingerprintKey(block.fingerprint);
  }
  return Seal(UnitFingerprintsKey(unit), std::move(body));
}

absl::StatusOr<std::vector<BlockFingerprint>> DecodeUnitFingerprints(uint64_t unit,
                                                                     std::string_view value) {
  const std::string what = absl::StrCat("fingerprints of unit ", unit);
  const absl::StatusOr<std::string_view> body = Unseal(UnitFingerprintsKey(unit), value, what);
  if (!body.ok()) return body.status();
  // Nodes made before blocks were sampled have all fingerprints in order, without indices; no unit
  // is so large that the two forms have the same size.
  constexpr size_t kIndexed = sizeof(Fingerprint) + 1;
  const bool indexed = body->size() % kIndexed == 0;
  const size_t each = indexed ? kIndexed : sizeof(Fingerprint);
  if (body->empty() || body->size() % each != 0) return Malformed(what);
  std::vector<BlockFingerprint> fingerprints(body->size() / each);
  if (fingerprints.size() > kUnitBlocksMax) return Malformed(what);
  for (size_t i = 0; i < fingerprints.size(); ++i) {
    const std::string_view one = body->substr(i * each, each);
    fingerprints[i].index = static_cast<uint8_t>(indexed ? one.front() : static_cast<char>(i));
    if (fingerprints[i].index >= kUnitBlocksMax ||
        (i > 0 && fingerprints[i].index <= fingerprints[i - 1].index)) {
      return Malformed(what);
    }
    std::memcpy(fingerprints[i].fingerprint.data(), one.data() + each - sizeof(Fingerprint),
                sizeof(Fingerprint));
  }
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

namespace {

constexpr size_t kSegmentBytes = 21;  // of a record's fields
constexpr uint64_t kExtentItemsMax = kExtentBytesMax / kStoredGrain;

void WriteSegment(ByteWriter& writer, const SegmentRecord& record) {
  writer.Fixed(static_cast<uint8_t>(record.state));
  writer.Fixed(record.sequence);
  writer.Fixed(record.written_bytes);
  writer.Fixed(record.live_bytes);
  writer.Fixed(record.expected_bytes);
}

// Makes `valid` false when there is no such record.
SegmentRecord ReadSegment(ByteReader& reader, bool& valid) {
  SegmentRecord record;
  const auto state = reader.Fixed<uint8_t>();
  record.sequence = reader.Fixed<uint64_t>();
  record.written_bytes = reader.Fixed<uint32_t>();
  record.live_bytes = reader.Fixed<uint32_t>();
  record.expected_bytes = reader.Fixed<uint32_t>();
  valid = valid && reader.ok() && state <= static_cast<uint8_t>(SegmentState::kSealed) &&
          record.live_bytes <= record.written_bytes && record.expected_bytes <= record.live_bytes;
  record.state = static_cast<SegmentState>(state);
  return record;
}

// Ascending numbers as runs: (gap to the end of the run before, length).
void WriteRuns(ByteWriter& writer, const std::vector<uint64_t>& numbers) {
  const auto run_at = [&](size_t i) {
    size_t run = 1;
    while (i + run < numbers.size() && numbers[i + run] == numbers[i] + run) ++run;
    return run;
  };
  uint64_t runs = 0;
  for (size_t i = 0; i < numbers.size(); i += run_at(i)) ++runs;
  writer.Varint(runs);
  uint64_t next = 0;
  for (size_t i = 0; i < numbers.size();) {
    const size_t run = run_at(i);
    EBB_CHECK(numbers[i] >= next);
    writer.Varint(numbers[i] - next);
    writer.Varint(run);
    next = numbers[i] + run;
    i += run;
  }
}

bool ReadRuns(ByteReader& reader, std::vector<uint64_t>& numbers) {
  const uint64_t runs = reader.Varint();
  if (runs > kExtentItemsMax) return false;
  uint64_t next = 0;
  uint64_t items = 0;
  for (uint64_t i = 0; i < runs; ++i) {
    const uint64_t gap = reader.Varint();
    const uint64_t run = reader.Varint();
    if (!reader.ok() || run == 0 || run > kExtentItemsMax) return false;
    items += run;
    // Many runs must not ask for much memory, nor numbers wrap around.
    if (items > kExtentItemsMax || gap > ~uint64_t{0} - run - next) return false;
    next += gap;
    for (uint64_t n = 0; n < run; ++n) numbers.push_back(next + n);
    next += run;
  }
  return reader.ok();
}

}  // namespace

std::string EncodeSegment(SegmentId id, const SegmentRecord& record) {
  ByteWriter writer;
  WriteSegment(writer, record);
  return Seal(SegmentKey(id), writer.Take());
}

absl::StatusOr<SegmentRecord> DecodeSegment(SegmentId id, std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(SegmentKey(id), value, SegmentName(id));
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  bool valid = true;
  const SegmentRecord record = ReadSegment(reader, valid);
  if (!reader.Done() || !valid || record.state == SegmentState::kFree) {
    return Malformed(SegmentName(id));
  }
  return record;
}

std::string ExtentKey(SegmentId id, uint32_t offset_in_segment) {
  std::string key = SegmentKey(id);
  AppendBigEndian(key, offset_in_segment);
  return key;
}

std::string EncodeExtent(SegmentId id, uint32_t offset_in_segment, const ExtentContent& content) {
  ByteWriter writer;
  WriteRuns(writer, content.units);
  WriteRuns(writer, content.blocks);
  return Seal(ExtentKey(id, offset_in_segment), writer.Take());
}

absl::Status DecodeExtent(std::string_view key, std::string_view value, ExtentContent& content) {
  const absl::StatusOr<std::string_view> body = Unseal(key, value, "an extent");
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  if (!ReadRuns(reader, content.units) || !ReadRuns(reader, content.blocks) || !reader.Done()) {
    return Malformed("an extent");
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentId> ParseSegmentKey(std::string_view key) {
  if (key.size() != 5) {
    return absl::DataLossError(
        absl::StrCat("metadata: table segments has a key of ", key.size(), " bytes"));
  }
  return SegmentId{static_cast<uint8_t>(key[0]), ReadBigEndian<uint32_t>(key.substr(1, 4))};
}

absl::StatusOr<SegmentId> ParseExtentKey(std::string_view key) {
  if (key.size() != 9) {
    return absl::DataLossError(
        absl::StrCat("metadata: table extents has a key of ", key.size(), " bytes"));
  }
  return ParseSegmentKey(key.substr(0, 5));
}

std::string JournalKey(uint64_t sequence) {
  std::string key;
  AppendBigEndian(key, sequence);
  return key;
}

std::string EncodeJournal(uint64_t sequence, std::span<const MapChange> blocks,
                          std::span<const SegmentChange> segments) {
  ByteWriter writer;
  writer.Reserve(blocks.size() * (sizeof(MapEntry) + 2) +
                 segments.size() * (sizeof(uint8_t) + sizeof(uint32_t) + kSegmentBytes) + 32);
  writer.Varint(blocks.size());
  uint64_t next = 0;
  for (const MapChange& change : blocks) {
    EBB_CHECK(change.block >= next);
    writer.Varint(change.block - next);
    writer.Fixed(change.entry.place());
    writer.Fixed(change.entry.crc32c());
    next = change.block + 1;
  }
  writer.Varint(segments.size());
  for (const SegmentChange& change : segments) {
    writer.Fixed(change.id.device);
    writer.Fixed(change.id.segment);
    WriteSegment(writer, change.record);
  }
  return Seal(JournalKey(sequence), writer.Take());
}

absl::StatusOr<JournalRecord> DecodeJournal(uint64_t sequence, std::string_view value) {
  const std::string what = absl::StrCat("commit ", sequence, " in the journal");
  const absl::StatusOr<std::string_view> body = Unseal(JournalKey(sequence), value, what);
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  JournalRecord record;
  bool valid = true;
  uint64_t next = 0;
  const uint64_t blocks = reader.Varint();
  // Each takes more than a byte, so that no count asks for more memory than the record's size.
  valid = blocks <= reader.left();
  for (uint64_t i = 0; i < blocks && valid && reader.ok(); ++i) {
    const uint64_t block = next + reader.Varint();
    const auto place = reader.Fixed<uint64_t>();
    record.blocks.push_back({block, MapEntry::FromStored(place, reader.Fixed<uint32_t>(), valid)});
    valid = valid && block >= next;
    next = block + 1;
  }
  const uint64_t segments = valid ? reader.Varint() : 0;
  valid = valid && segments <= reader.left();
  for (uint64_t i = 0; i < segments && valid && reader.ok(); ++i) {
    SegmentChange change;
    change.id.device = reader.Fixed<uint8_t>();
    change.id.segment = reader.Fixed<uint32_t>();
    change.record = ReadSegment(reader, valid);
    record.segments.push_back(change);
  }
  if (!reader.Done() || !valid) return Malformed(what);
  return record;
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
    return absl::FailedPreconditionError(absl::StrCat(
        "metadata: the node's capacity tier has format ", version, "; this version reads format ",
        kFormatVersion, " only: open the node with the version that made it, or make it anew"));
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
  for (const uint64_t number :
       {record.next_unit, record.next_sequence, record.mapped_blocks, record.unique_blocks,
        record.stored_bytes, record.journal_first, record.journal_next}) {
    writer.Fixed(number);
  }
  return Seal(kTotalsKey, writer.Take());
}

absl::StatusOr<TotalsRecord> DecodeTotals(std::string_view value) {
  const absl::StatusOr<std::string_view> body = Unseal(kTotalsKey, value, "the totals");
  if (!body.ok()) return body.status();
  ByteReader reader(*body);
  TotalsRecord record;
  for (uint64_t* number :
       {&record.next_unit, &record.next_sequence, &record.mapped_blocks, &record.unique_blocks,
        &record.stored_bytes, &record.journal_first, &record.journal_next}) {
    *number = reader.Fixed<uint64_t>();
  }
  if (!reader.Done() || record.next_unit == 0 || record.next_unit > kUnitLimit ||
      record.journal_first == 0 || record.journal_first > record.journal_next) {
    return Malformed("the totals");
  }
  return record;
}

}  // namespace ebb::storage
