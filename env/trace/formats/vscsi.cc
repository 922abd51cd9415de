// VMware vscsiStats: binary records of version 1 and 2, and the text that IOBlazer replays.
//
//   version 1, 32 bytes: u32 serial, u32 bytes, u32 segments, u16 command, u16 version,
//                        u64 sector, u64 time in us
//   version 2, 40 bytes: u16 command, u16 version, u32 serial, u32 bytes, u32 segments,
//                        u64 sector, u64 time in us, u64 response time in us
//
// There is no file header. The version is the high byte of the field, in every record.
#include <array>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"
#include "env/trace/formats/little_endian.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

constexpr size_t kBytesV1 = 32;
constexpr size_t kBytesV2 = 40;
// So many records must agree before a file without a mark is taken for one of these.
constexpr size_t kCertainRecords = 4;

// The kinds of SCSI commands that move or settle data. Others (UNMAP, whose places are in its
// data, INQUIRY, ...) are no requests, and above all no reads.
bool OpOfCommand(uint16_t command, TraceOp* op) {
  switch (command) {
    case 0x08:  // READ(6), (10), (12), (16)
    case 0x28:
    case 0xa8:
    case 0x88:
      *op = TraceOp::kRead;
      return true;
    case 0x0a:  // WRITE(6), (10), (12), (16)
    case 0x2a:
    case 0xaa:
    case 0x8a:
    case 0x2e:  // WRITE AND VERIFY(10), (12), (16)
    case 0xae:
    case 0x8e:
      *op = TraceOp::kWrite;
      return true;
    case 0x35:  // SYNCHRONIZE CACHE(10), (16)
    case 0x91:
      *op = TraceOp::kFlush;
      return true;
    default:
      return false;
  }
}

// The place where each version keeps what.
struct Layout {
  size_t command;
  size_t version;
  size_t bytes;
  size_t sector;
  size_t time_us;
};
constexpr Layout kLayoutV1 = {
    .command = 12, .version = 14, .bytes = 4, .sector = 16, .time_us = 24};
constexpr Layout kLayoutV2 = {.command = 0, .version = 2, .bytes = 8, .sector = 16, .time_us = 24};

Entry ParseBinary(std::string_view entry, const Layout& layout, uint16_t version,
                  TraceRecord* record) {
  if (LoadLittle<uint16_t>(entry, layout.version) >> 8 != version) {
    return Entry::Broken("the record is of another version");
  }
  const auto command = LoadLittle<uint16_t>(entry, layout.command);
  if (command > 0xff) return Entry::Broken("the command is no SCSI operation code");
  if (!OpOfCommand(command, &record->op)) return Entry::Other();
  if (__builtin_mul_overflow(LoadLittle<uint64_t>(entry, layout.time_us), kNsPerUs,
                             &record->time_ns)) {
    return Entry::Broken("the time is beyond 2^64 ns");
  }
  if (record->op == TraceOp::kFlush) return Entry::Record();
  if (!SetPlace(LoadLittle<uint64_t>(entry, layout.sector), 0, kSectorBytes, record)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  record->bytes = LoadLittle<uint32_t>(entry, layout.bytes);
  return Entry::Record();
}

Entry ParseV1(std::string_view entry, TraceRecord* record) {
  return ParseBinary(entry, kLayoutV1, 1, record);
}

Entry ParseV2(std::string_view entry, TraceRecord* record) {
  const Entry parsed = ParseBinary(entry, kLayoutV2, 2, record);
  const auto response_us = LoadLittle<uint64_t>(entry, 32);
  if (__builtin_mul_overflow(response_us, kNsPerUs, &record->latency_ns)) record->latency_ns = 0;
  return parsed;
}

bool Certain(std::string_view head, size_t record_bytes, const Layout& layout, uint16_t version) {
  if (head.size() < kCertainRecords * record_bytes) return false;
  for (size_t i = 0; i < kCertainRecords; ++i) {
    TraceRecord record;
    const Entry parsed =
        ParseBinary(head.substr(i * record_bytes, record_bytes), layout, version, &record);
    if (parsed.kind != Entry::Kind::kRecord) return false;
  }
  return true;
}

bool CertainV1(std::string_view head) { return Certain(head, kBytesV1, kLayoutV1, 1); }
bool CertainV2(std::string_view head) { return Certain(head, kBytesV2, kLayoutV2, 2); }
bool CertainText(std::string_view head) { return head.starts_with("#Vscsi Cmd Trace"); }

// `serial,bytes,segments,command,sector,time_us`
Entry ParseText(std::string_view line, TraceRecord* record) {
  if (line.starts_with('#')) return Entry::Message();
  std::array<std::string_view, 6> fields;
  const size_t count = SplitCommas(line, fields);
  if (count == 1 && fields[0].empty()) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not six columns");
  uint64_t serial = 0;
  uint64_t segments = 0;
  uint64_t sector = 0;
  if (!ParseNumber(fields[0], &serial) || !ParseNumber(fields[1], &record->bytes) ||
      !ParseNumber(fields[2], &segments) || !ParseNumber(fields[4], &sector)) {
    return Entry::Broken("a column is no number");
  }
  if (!ParseTime(fields[5], kNsPerUs, &record->time_ns)) {
    return Entry::Broken("the time is no number");
  }
  if (__builtin_mul_overflow(sector, kSectorBytes, &record->offset)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  const bool read = EqualsIgnoringCase(fields[3], "read");
  if (!read && !EqualsIgnoringCase(fields[3], "write")) return Entry::Other();
  record->op = read ? TraceOp::kRead : TraceOp::kWrite;
  return Entry::Record();
}

constexpr std::array kFormats = {
    TraceFormat{.name = "vscsi1",
                .help = "VMware vscsiStats binary, version 1",
                .certain = CertainV1,
                .make_parser = MakeStatelessParser<ParseV1, kBytesV1>},
    TraceFormat{.name = "vscsi2",
                .help = "VMware vscsiStats binary, version 2 (response time taken as us)",
                .has_latency = true,
                .certain = CertainV2,
                .make_parser = MakeStatelessParser<ParseV2, kBytesV2>},
    TraceFormat{.name = "vscsicsv",
                .help = "vscsiStats -e, IOBlazer: serial,bytes,segments,read|write,sector,time_us",
                .certain = CertainText,
                .make_parser = MakeStatelessParser<ParseText>},
};

}  // namespace

std::span<const TraceFormat> VscsiFormats() { return kFormats; }

}  // namespace ebb::env
