// The records of the capacity tier's tables: what a decoder accepts, its encoder writes again.
#include "storage-backend/capacity/records.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::storage {
namespace {

using fuzz::AsBytes;
using fuzz::Bytes;
using fuzz::Require;

constexpr uint64_t kNumber = 7;
constexpr SegmentId kSegment{.device = 1, .segment = 5};
constexpr uint32_t kOffset = 8192;

// The value with the checksum over key and value that every record ends with.
std::string Seal(std::string_view key, std::string value) {
  const uint32_t crc = Crc32c(AsBytes(value), Crc32c(AsBytes(key)));
  value.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  return value;
}

class Record {
 public:
  Record(Bytes input, bool seal) : body_(fuzz::ToString(input)), seal_(seal) {}
  std::string Under(std::string_view key) const { return seal_ ? Seal(key, body_) : body_; }

 private:
  const std::string body_;
  const bool seal_;
};

void DecodeKeys(const Record& record) {
  const std::string key = record.Under("");
  bool is_fingerprints = false;
  (void)ParseUnitKey(key, is_fingerprints);
  (void)ParseSegmentKey(key);
  (void)ParseExtentKey(key);
}

void DecodeFingerprints(const Record& record) {
  const auto list = DecodeUnitFingerprints(kNumber, record.Under(UnitFingerprintsKey(kNumber)));
  if (list.ok()) {
    const auto again = DecodeUnitFingerprints(kNumber, EncodeUnitFingerprints(kNumber, *list));
    Require(again.ok() && *again == *list);
  }
  const Fingerprint fingerprint{};
  const std::string key = FingerprintKey(fingerprint);
  const auto ref = DecodeFingerprintEntry(key, record.Under(key));
  if (!ref.ok()) return;
  const auto again = DecodeFingerprintEntry(key, EncodeFingerprintEntry(fingerprint, *ref));
  Require(again.ok() && *again == *ref);
}

void DecodeJournalRecord(const Record& record) {
  const auto journal = DecodeJournal(kNumber, record.Under(JournalKey(kNumber)));
  if (!journal.ok()) return;
  const auto again =
      DecodeJournal(kNumber, EncodeJournal(kNumber, journal->blocks, journal->segments));
  Require(again.ok() && again->segments == journal->segments);
  Require(again->blocks.size() == journal->blocks.size());
}

void DecodeExtentRecord(const Record& record) {
  const std::string key = ExtentKey(kSegment, kOffset);
  ExtentContent content;
  if (!DecodeExtent(key, record.Under(key), content).ok()) return;
  ExtentContent again;
  Require(DecodeExtent(key, EncodeExtent(kSegment, kOffset, content), again).ok());
  Require(again == content);
}

// `table` chooses the kind of record.
void Decode(uint8_t table, const Record& record) {
  switch (table) {
    case 0: {
      const auto page = DecodePage(kNumber, record.Under(PageKey(kNumber)));
      if (!page.ok()) break;
      const std::string encoded = EncodePage(kNumber, *page);
      if (encoded.empty()) break;
      Require(DecodePage(kNumber, encoded).ok());
      break;
    }
    case 1: {
      const auto unit = DecodeUnit(kNumber, record.Under(UnitKey(kNumber)));
      if (!unit.ok()) break;
      const auto again = DecodeUnit(kNumber, EncodeUnit(kNumber, *unit));
      Require(again.ok() && *again == *unit);
      // Sums that space accounting rests on.
      Require(unit->LiveBytes() >= unit->LiveDataBytes());
      break;
    }
    case 2:
      DecodeFingerprints(record);
      break;
    case 3: {
      const auto segment = DecodeSegment(kSegment, record.Under(SegmentKey(kSegment)));
      if (!segment.ok()) break;
      const auto again = DecodeSegment(kSegment, EncodeSegment(kSegment, *segment));
      Require(again.ok() && *again == *segment);
      break;
    }
    case 4:
      DecodeExtentRecord(record);
      break;
    case 5:
      DecodeJournalRecord(record);
      break;
    case 6: {
      const auto format = DecodeFormat(record.Under(kFormatKey));
      if (!format.ok()) break;
      const auto again = DecodeFormat(EncodeFormat(*format));
      Require(again.ok() && *again == *format);
      break;
    }
    case 7: {
      const auto totals = DecodeTotals(record.Under(kTotalsKey));
      if (!totals.ok()) break;
      const auto again = DecodeTotals(EncodeTotals(*totals));
      Require(again.ok() && *again == *totals);
      break;
    }
    default:
      DecodeKeys(record);
  }
}

}  // namespace
}  // namespace ebb::storage

void ebb::fuzz::Run(Bytes input) {
  const uint8_t how = TakeByte(input);
  storage::Decode(how >> 1, storage::Record(input, (how & 1) != 0));
}
