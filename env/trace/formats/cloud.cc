// Block traces of clouds: Alibaba 2020, Tencent CBS 2018, SYSTOR'17.
#include <array>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

// Five columns of a CSV line; kMessage for an empty one.
Entry SplitFive(std::string_view line, std::array<std::string_view, 5>* fields) {
  const size_t count = SplitCommas(line, *fields);
  if (count == 1 && (*fields)[0].empty()) return Entry::Message();
  if (count != fields->size()) return Entry::Broken("it has not five columns");
  return Entry::Record();
}

// `device,R|W,offset_bytes,bytes,time_us`
Entry ParseAlibaba(std::string_view line, TraceRecord* record) {
  std::array<std::string_view, 5> fields;
  const Entry split = SplitFive(line, &fields);
  if (split.kind != Entry::Kind::kRecord) return split;
  if (!ParseNumber(fields[0], &record->device) || !ParseNumber(fields[2], &record->offset) ||
      !ParseNumber(fields[3], &record->bytes)) {
    return Entry::Broken("a column is no number");
  }
  if (fields[1] != "R" && fields[1] != "W")
    return Entry::Broken("the operation is neither R nor W");
  record->op = fields[1] == "R" ? TraceOp::kRead : TraceOp::kWrite;
  // No fraction: a stamp with one would be of other units.
  uint64_t time_us = 0;
  if (!ParseNumber(fields[4], &time_us) ||
      __builtin_mul_overflow(time_us, kNsPerUs, &record->time_ns)) {
    return Entry::Broken("the time is no number of us");
  }
  return Entry::Record();
}

// `time_s,sector,sectors,type,volume`
Entry ParseTencent(std::string_view line, TraceRecord* record) {
  std::array<std::string_view, 5> fields;
  const Entry split = SplitFive(line, &fields);
  if (split.kind != Entry::Kind::kRecord) return split;
  uint64_t time_s = 0;
  uint64_t sector = 0;
  uint64_t sectors = 0;
  uint64_t type = 0;
  if (!ParseNumber(fields[0], &time_s) || !ParseNumber(fields[1], &sector) ||
      !ParseNumber(fields[2], &sectors) || !ParseNumber(fields[3], &type) ||
      !ParseNumber(fields[4], &record->device)) {
    return Entry::Broken("a column is no number");
  }
  if (type > 1) return Entry::Broken("the type is neither 0 (read) nor 1 (write)");
  record->op = type == 0 ? TraceOp::kRead : TraceOp::kWrite;
  if (__builtin_mul_overflow(time_s, kNsPerS, &record->time_ns)) {
    return Entry::Broken("the time is beyond 2^64 ns");
  }
  if (!SetPlace(sector, sectors, kSectorBytes, record)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  return Entry::Record();
}

constexpr std::string_view kSystorHeader = "Timestamp,Response,IOType,LUN,Offset,Size";

// `time_s,response_s,R|W|,lun,offset_bytes,bytes`
Entry ParseSystor(std::string_view line, TraceRecord* record) {
  if (line.starts_with("Timestamp,")) return Entry::Message();
  std::array<std::string_view, 6> fields;
  const size_t count = SplitCommas(line, fields);
  if (count == 1 && fields[0].empty()) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not six columns");
  if (!ParseTime(fields[0], kNsPerS, &record->time_ns)) {
    return Entry::Broken("the time is no number");
  }
  if (!ParseNumber(fields[3], &record->device) || !ParseNumber(fields[4], &record->offset) ||
      !ParseNumber(fields[5], &record->bytes)) {
    return Entry::Broken("a column is no number");
  }
  if (!fields[1].empty() && !ParseTime(fields[1], kNsPerS, &record->latency_ns)) {
    return Entry::Broken("the response time is no number");
  }
  // The array's own entries without a kind: no requests.
  if (fields[2].empty()) return Entry::Other();
  if (fields[2] != "R" && fields[2] != "W")
    return Entry::Broken("the operation is neither R nor W");
  record->op = fields[2] == "R" ? TraceOp::kRead : TraceOp::kWrite;
  return Entry::Record();
}

bool CertainSystor(std::string_view head) { return head.starts_with(kSystorHeader); }

constexpr std::array kFormats = {
    TraceFormat{.name = "alibaba",
                .help = "Alibaba 2020 CSV: device,R|W,offset_bytes,bytes,time_us",
                .make_parser = MakeStatelessParser<ParseAlibaba>},
    TraceFormat{.name = "tencent",
                .help = "Tencent CBS 2018 CSV: time_s,sector,sectors,type,volume, 0 = read",
                .make_parser = MakeStatelessParser<ParseTencent>},
    TraceFormat{.name = "systor",
                .help = "SYSTOR'17 CSV: time_s,response_s,R|W|,lun,offset_bytes,bytes",
                .has_latency = true,
                .certain = CertainSystor,
                .make_parser = MakeStatelessParser<ParseSystor>},
};

}  // namespace

std::span<const TraceFormat> CloudFormats() { return kFormats; }

}  // namespace ebb::env
