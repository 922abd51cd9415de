#include "base/trace/trace_chunk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include <zstd.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::trace {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kFileMark = "EBBTRACE";
constexpr uint32_t kChunkMark = 0x43544245;  // "EBTC"
constexpr uint32_t kEndMark = 0x45544245;    // "EBTE"
// Version 1 has no kOtherContentBit and no columns of devices and latencies; else they are the
// same.
constexpr uint32_t kFormatVersion = 2;
constexpr int kZstdLevel = 6;
constexpr size_t kCrcOffset = 20;
constexpr uint8_t kFuaBit = 0x80;
// The record's content is told where its kind usually has none, or not told where it usually is.
constexpr uint8_t kOtherContentBit = 0x20;
constexpr size_t kColumnsAlways = 6;
constexpr size_t kColumnsAll = 8;

template <typename T>
void PutFixed(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

template <typename T>
T GetFixed(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Signed distances between unsigned values, small ones first.
uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Reads columns; remembers that something was out of bounds instead of failing each call.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  uint8_t Byte() { return static_cast<uint8_t>(Take(1)); }
  uint64_t Fixed64() { return Take(8); }
  // A column: its length, then its bytes.
  Cursor Column() {
    const uint64_t length = Varint();
    if (length > bytes_.size()) ok_ = false;
    const size_t taken = ok_ ? static_cast<size_t>(length) : 0;
    Cursor column(bytes_.first(taken));
    bytes_ = bytes_.subspan(taken);
    return column;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  uint64_t Take(size_t count) {
    if (bytes_.size() < count) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

bool IsOp(uint8_t op) {
  return op != 0 && std::string_view("RWFTZ").find(static_cast<char>(op)) != std::string_view::npos;
}

// One byte: what was asked for, and whether its content follows.
uint8_t EncodeOp(const TraceRecord& record) {
  const bool usual = (record.op == TraceOp::kWrite) == record.HasContent();
  return static_cast<uint8_t>(static_cast<uint8_t>(record.op) | (record.fua ? kFuaBit : 0) |
                              (usual ? 0 : kOtherContentBit));
}

std::string EncodeColumns(std::span<const TraceRecord> records) {
  // Times, ops, offsets, sizes, compressibility, fingerprints; devices and latencies where a record
  // has any.
  std::array<std::string, kColumnsAll> columns;
  bool all_columns = false;
  uint64_t last_device = 0;
  uint64_t last_ns = 0;
  uint64_t last_end = 0;
  for (const TraceRecord& record : records) {
    PutVarint(columns[0], record.time_ns - last_ns);
    columns[1] += static_cast<char>(EncodeOp(record));
    PutVarint(columns[2], ZigZag(static_cast<int64_t>(record.offset - last_end)));
    PutVarint(columns[3], record.bytes);
    if (record.HasContent()) {
      PutVarint(columns[4], record.compressed_per_mille);
      for (const uint64_t fingerprint : record.fingerprints) PutFixed(columns[5], fingerprint);
    }
    PutVarint(columns[6], ZigZag(static_cast<int64_t>(record.device - last_device)));
    PutVarint(columns[7], record.latency_ns);
    all_columns = all_columns || record.device != 0 || record.latency_ns != 0;
    last_device = record.device;
    last_ns = record.time_ns;
    last_end = record.offset + record.bytes;
  }
  std::string raw;
  const size_t column_count = all_columns ? kColumnsAll : kColumnsAlways;
  for (const std::string& column : std::span(columns).first(column_count)) {
    PutVarint(raw, column.size());
    raw += column;
  }
  return raw;
}

absl::Status DecodeOp(uint8_t op, TraceRecord* record, bool* content) {
  const auto kind = static_cast<uint8_t>(op & ~(kFuaBit | kOtherContentBit));
  if (!IsOp(kind)) return absl::DataLossError("it holds an unknown request kind");
  record->op = static_cast<TraceOp>(kind);
  record->fua = (op & kFuaBit) != 0;
  *content = (record->op == TraceOp::kWrite) != ((op & kOtherContentBit) != 0);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TraceRecord>> DecodeColumns(std::span<const std::byte> raw,
                                                       size_t record_count) {
  Cursor all(raw);
  std::vector<Cursor> columns;
  while (columns.size() < kColumnsAlways) columns.push_back(all.Column());
  const bool all_columns = all.ok() && !all.done();
  while (all_columns && columns.size() < kColumnsAll) columns.push_back(all.Column());
  std::vector<TraceRecord> records(record_count);
  uint64_t last_ns = 0;
  uint64_t last_end = 0;
  uint64_t last_device = 0;
  size_t fingerprints_left = raw.size() / sizeof(uint64_t);
  for (TraceRecord& record : records) {
    last_ns += columns[0].Varint();
    record.time_ns = last_ns;
    bool content = false;
    EBB_RETURN_IF_ERROR(DecodeOp(columns[1].Byte(), &record, &content));
    record.offset = last_end + static_cast<uint64_t>(UnZigZag(columns[2].Varint()));
    record.bytes = columns[3].Varint();
    if (record.offset + record.bytes < record.offset) {
      return absl::DataLossError("a request reaches beyond 2^64 bytes");
    }
    last_end = record.offset + record.bytes;
    if (all_columns) {
      last_device += static_cast<uint64_t>(UnZigZag(columns[6].Varint()));
      record.device = last_device;
      record.latency_ns = columns[7].Varint();
    }
    if (!content) continue;
    const uint64_t per_mille = columns[4].Varint();
    if (per_mille > 1000) return absl::DataLossError("a compressibility is out of range");
    record.compressed_per_mille = static_cast<uint16_t>(per_mille);
    const uint64_t blocks = BlocksTouched(record.offset, record.bytes);
    if (blocks > fingerprints_left) return absl::DataLossError("it lacks fingerprints");
    fingerprints_left -= static_cast<size_t>(blocks);
    record.fingerprints.resize(static_cast<size_t>(blocks));
    for (uint64_t& fingerprint : record.fingerprints) fingerprint = columns[5].Fixed64();
  }
  const bool exact = all.done() && std::all_of(columns.begin(), columns.end(),
                                               [](const Cursor& c) { return c.done(); });
  if (!exact) return absl::DataLossError("its columns have the wrong length");
  return records;
}

}  // namespace

bool IsTraceMark(std::span<const std::byte> bytes) {
  return bytes.size() >= kFileMark.size() &&
         std::memcmp(bytes.data(), kFileMark.data(), kFileMark.size()) == 0;
}

std::string EncodeHeader(const TraceHeader& header) {
  const std::string note = header.note.substr(0, kNoteBytesMax);
  std::string out(kFileMark);
  PutFixed(out, kFormatVersion);
  PutFixed(out, static_cast<uint32_t>(kHeaderFixedBytes + note.size() + sizeof(uint32_t)));
  PutFixed(out, header.volume_bytes);
  PutFixed(out, header.recorded_wall_ms);
  PutFixed(out, static_cast<uint32_t>(note.size()));
  out += note;
  PutFixed(out, Crc32c(AsBytes(out)));
  return out;
}

absl::StatusOr<size_t> HeaderBytes(std::span<const std::byte> fixed) {
  if (fixed.size() < kHeaderFixedBytes || !IsTraceMark(fixed)) {
    return absl::InvalidArgumentError("it is not an Ebb trace (.ebbt) file");
  }
  const auto version = GetFixed<uint32_t>(fixed, 8);
  if (version == 0 || version > kFormatVersion) {
    return absl::InvalidArgumentError(fmt::format(
        "its format version is {}, this program knows up to {}", version, kFormatVersion));
  }
  const auto total = GetFixed<uint32_t>(fixed, 12);
  const auto note = GetFixed<uint32_t>(fixed, 32);
  if (note > kNoteBytesMax || total != kHeaderFixedBytes + note + sizeof(uint32_t)) {
    return absl::DataLossError("its header is damaged: impossible length");
  }
  return total;
}

absl::StatusOr<TraceHeader> DecodeHeader(std::span<const std::byte> bytes) {
  EBB_ASSIGN_OR_RETURN(const size_t total, HeaderBytes(bytes));
  const size_t crc_offset = total - sizeof(uint32_t);
  if (bytes.size() != total ||
      GetFixed<uint32_t>(bytes, crc_offset) != Crc32c(bytes.first(crc_offset))) {
    return absl::DataLossError("its header is damaged: wrong checksum");
  }
  const auto note = bytes.subspan(kHeaderFixedBytes, crc_offset - kHeaderFixedBytes);
  return TraceHeader{.volume_bytes = GetFixed<uint64_t>(bytes, 16),
                     .recorded_wall_ms = GetFixed<int64_t>(bytes, 24),
                     .note = std::string(reinterpret_cast<const char*>(note.data()), note.size())};
}

absl::StatusOr<std::string> EncodeChunk(uint32_t number, std::span<const TraceRecord> records) {
  const std::string raw = EncodeColumns(records);
  std::string payload(ZSTD_compressBound(raw.size()), '\0');
  const size_t stored =
      ZSTD_compress(payload.data(), payload.size(), raw.data(), raw.size(), kZstdLevel);
  if (ZSTD_isError(stored)) {
    return absl::InternalError(fmt::format("zstd: {}", ZSTD_getErrorName(stored)));
  }
  payload.resize(stored);
  std::string out;
  PutFixed(out, kChunkMark);
  PutFixed(out, number);
  PutFixed(out, static_cast<uint32_t>(records.size()));
  PutFixed(out, static_cast<uint32_t>(stored));
  PutFixed(out, static_cast<uint32_t>(raw.size()));
  PutFixed(out, Crc32c(AsBytes(payload), Crc32c(AsBytes(out))));
  return out + payload;
}

std::string EncodeEnd(uint32_t chunk_count, uint64_t total_records) {
  std::string out;
  PutFixed(out, kEndMark);
  PutFixed(out, chunk_count);
  PutFixed(out, total_records);
  PutFixed(out, uint32_t{0});
  PutFixed(out, Crc32c(AsBytes(out)));
  return out;
}

absl::StatusOr<Frame> DecodeFrame(std::span<const std::byte> bytes) {
  const auto mark = GetFixed<uint32_t>(bytes, 0);
  if (mark != kChunkMark && mark != kEndMark) return absl::DataLossError("no frame mark");
  Frame frame{.end = mark == kEndMark,
              .number = GetFixed<uint32_t>(bytes, 4),
              .crc32c = GetFixed<uint32_t>(bytes, kCrcOffset)};
  if (frame.end) {
    frame.total_records = GetFixed<uint64_t>(bytes, 8);
    return frame;
  }
  frame.record_count = GetFixed<uint32_t>(bytes, 8);
  frame.stored_bytes = GetFixed<uint32_t>(bytes, 12);
  frame.raw_bytes = GetFixed<uint32_t>(bytes, 16);
  if (frame.stored_bytes > kChunkRawBytesMax || frame.raw_bytes > kChunkRawBytesMax ||
      frame.record_count > kChunkRecords) {
    return absl::DataLossError("impossible length");
  }
  return frame;
}

bool FrameCrcMatches(const Frame& frame, std::span<const std::byte> frame_bytes,
                     std::span<const std::byte> payload) {
  return frame.crc32c == Crc32c(payload, Crc32c(frame_bytes.first(kCrcOffset)));
}

absl::StatusOr<std::vector<TraceRecord>> DecodeChunk(const Frame& frame,
                                                     std::span<const std::byte> frame_bytes,
                                                     std::span<const std::byte> payload) {
  if (!FrameCrcMatches(frame, frame_bytes, payload)) {
    return absl::DataLossError("wrong checksum");
  }
  std::vector<std::byte> raw(frame.raw_bytes);
  const size_t got = ZSTD_decompress(raw.data(), raw.size(), payload.data(), payload.size());
  if (ZSTD_isError(got) || got != raw.size()) return absl::DataLossError("it does not decompress");
  return DecodeColumns(raw, frame.record_count);
}

}  // namespace ebb::trace
