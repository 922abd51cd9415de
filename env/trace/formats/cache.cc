// Traces made for cache studies: libCacheSim, ARC and LIRS lists, Meta's Tectonic.
#include <array>
#include <limits>

#include <xxhash.h>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"
#include "env/trace/formats/little_endian.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

constexpr size_t kOracleBytes = 24;
constexpr uint64_t kPageBytes = 4096;

// oracleGeneral: u32 time in s, u64 object (here: a sector), u32 bytes, i64 number of the next
// request for the same object, from 1, or -1 (or INT64_MAX) for never. That number is the only
// thing in the file that can tell it from anything else, so it is checked.
class OracleParser final : public EntryParser {
 public:
  size_t record_bytes() const override { return kOracleBytes; }
  Entry Parse(std::string_view entry, TraceRecord* record) override {
    ++number_;
    const auto next = LoadLittle<int64_t>(entry, 16);
    if (next != -1 && next <= number_) {
      return Entry::Broken("the next access is not later than this one");
    }
    record->time_ns = LoadLittle<uint32_t>(entry, 0) * kNsPerS;
    if (!SetPlace(LoadLittle<uint64_t>(entry, 4), 0, kSectorBytes, record)) {
      return Entry::Broken("the object is no sector's number");
    }
    record->bytes = LoadLittle<uint32_t>(entry, 12);
    return Entry::Record();
  }

 private:
  int64_t number_ = 0;
};

std::unique_ptr<EntryParser> MakeOracleParser(const TraceOptions& /*options*/) {
  return std::make_unique<OracleParser>();
}

constexpr std::string_view kCacheSimHeader = "version,time,op,size,lbn";

// `version,time_s,op,bytes,sector`; op is a SCSI operation code in hexadecimal.
Entry ParseCacheSimCsv(std::string_view line, TraceRecord* record) {
  if (line == kCacheSimHeader) return Entry::Message();
  std::array<std::string_view, 5> fields;
  const size_t count = SplitCommas(line, fields);
  if (count == 1 && fields[0].empty()) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not five columns");
  uint64_t command = 0;
  uint64_t sector = 0;
  if (!ParseTime(fields[1], kNsPerS, &record->time_ns)) {
    return Entry::Broken("the time is no number");
  }
  if (!ParseNumber(fields[2], &command, 16) || !ParseNumber(fields[3], &record->bytes) ||
      !ParseNumber(fields[4], &sector)) {
    return Entry::Broken("a column is no number");
  }
  if (__builtin_mul_overflow(sector, kSectorBytes, &record->offset)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  if (command != 0x28 && command != 0x2a) return Entry::Other();
  record->op = command == 0x28 ? TraceOp::kRead : TraceOp::kWrite;
  return Entry::Record();
}

bool CertainCacheSimCsv(std::string_view head) { return head.starts_with(kCacheSimHeader); }

// `start count ignored number`
template <uint64_t kUnitBytes>
Entry ParseArc(std::string_view line, TraceRecord* record) {
  std::array<std::string_view, 4> fields;
  const size_t count = SplitBlanks(line, fields);
  if (count == 0) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not four columns");
  uint64_t start = 0;
  uint64_t units = 0;
  uint64_t number = 0;
  if (!ParseNumber(fields[0], &start) || !ParseNumber(fields[1], &units) ||
      !ParseNumber(fields[3], &number)) {
    return Entry::Broken("a column is no number");
  }
  if (!SetPlace(start, units, kUnitBytes, record)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  return Entry::Record();
}

// One block number a line; `*` parts the pieces of a joined list.
Entry ParseLirs(std::string_view line, TraceRecord* record) {
  const std::string_view text = TrimBlanks(line);
  if (text.empty() || text == "*") return Entry::Message();
  uint64_t block = 0;
  if (!ParseNumber(text, &block)) return Entry::Broken("it is no block's number");
  if (!SetPlace(block, 1, kPageBytes, record)) return Entry::Broken("it reaches beyond 2^64 bytes");
  return Entry::Record();
}

constexpr std::string_view kTectonicHeader = "op_time,block_id,block_id_size,io_size,io_offset,";

// Blocks are files of their own: the offset counts within the block, so a block is a device.
Entry ParseTectonic(std::string_view line, TraceRecord* record) {
  if (line.starts_with("op_time,")) return Entry::Message();
  std::array<std::string_view, 11> fields;
  const size_t count = SplitCommas(line, fields);
  if (count == 1 && fields[0].empty()) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not eleven columns");
  if (!ParseTime(fields[0], kNsPerS, &record->time_ns)) {
    return Entry::Broken("the time is no number");
  }
  if (fields[1].empty()) return Entry::Broken("it names no block");
  record->device = XXH3_64bits(fields[1].data(), fields[1].size());
  if (!ParseNumber(fields[3], &record->bytes) || !ParseNumber(fields[4], &record->offset)) {
    return Entry::Broken("a column is no number");
  }
  const bool read = fields[7].starts_with("get");
  if (!read && !fields[7].starts_with("put")) return Entry::Other();
  record->op = read ? TraceOp::kRead : TraceOp::kWrite;
  return Entry::Record();
}

bool CertainTectonic(std::string_view head) { return head.starts_with(kTectonicHeader); }

constexpr std::array kFormats = {
    TraceFormat{.name = "oracle",
                .help = "libCacheSim oracleGeneral, objects are sectors; no operations",
                .has_ops = false,
                .make_parser = MakeOracleParser},
    TraceFormat{.name = "lcscsv",
                .help = "libCacheSim CSV: version,time_s,op_hex,bytes,sector",
                .certain = CertainCacheSimCsv,
                .make_parser = MakeStatelessParser<ParseCacheSimCsv>},
    TraceFormat{.name = "cachelib",
                .help = "Meta Tectonic CSV (CacheLib): each block is a device",
                .certain = CertainTectonic,
                .make_parser = MakeStatelessParser<ParseTectonic>},
    TraceFormat{.name = "arc",
                .help = "ARC list: sector sectors 0 number; order only",
                .has_times = false,
                .has_ops = false,
                .make_parser = MakeStatelessParser<ParseArc<kSectorBytes>>},
    TraceFormat{.name = "arcpage",
                .help = "ARC list in pages of 4 KiB (OLTP): page pages 0 number; order only",
                .has_times = false,
                .has_ops = false,
                .make_parser = MakeStatelessParser<ParseArc<kPageBytes>>},
    TraceFormat{.name = "lirs",
                .help = "LIRS list: one number of a 4 KiB block a line; order only",
                .has_times = false,
                .has_ops = false,
                .make_parser = MakeStatelessParser<ParseLirs>},
};

}  // namespace

std::span<const TraceFormat> CacheFormats() { return kFormats; }

}  // namespace ebb::env
