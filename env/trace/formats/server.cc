// Traces of servers and arrays: MSR Cambridge, its form in Heimdall and LinnOS, SPC.
#include <array>
#include <string>

#include <xxhash.h>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

constexpr uint64_t kFiletimeNs = 100;
// 1601 to 1970 in FILETIME's units. Stamps count from 1970 here, so that 64 bits of nanoseconds
// reach the year 2554.
constexpr uint64_t kFiletimeOfUnixEpoch = 116'444'736'000'000'000;

class MsrParser final : public EntryParser {
 public:
  Entry Parse(std::string_view line, TraceRecord* record) override {
    std::array<std::string_view, 7> fields;
    const size_t count = SplitCommas(line, fields);
    if (count == 1 && fields[0].empty()) return Entry::Message();
    if (count != fields.size()) return Entry::Broken("it has not seven columns");
    uint64_t stamp = 0;
    uint64_t disk = 0;
    uint64_t response = 0;
    if (!ParseNumber(fields[0], &stamp) || stamp < kFiletimeOfUnixEpoch ||
        __builtin_mul_overflow(stamp - kFiletimeOfUnixEpoch, kFiletimeNs, &record->time_ns)) {
      return Entry::Broken("the time is no Windows FILETIME");
    }
    if (!ParseNumber(fields[2], &disk) || !ParseNumber(fields[4], &record->offset) ||
        !ParseNumber(fields[5], &record->bytes) || !ParseNumber(fields[6], &response) ||
        __builtin_mul_overflow(response, kFiletimeNs, &record->latency_ns)) {
      return Entry::Broken("a column is no number");
    }
    if (!EqualsIgnoringCase(fields[3], "read") && !EqualsIgnoringCase(fields[3], "write")) {
      return Entry::Broken("the type is neither Read nor Write");
    }
    record->op = EqualsIgnoringCase(fields[3], "read") ? TraceOp::kRead : TraceOp::kWrite;
    record->device = disk + DeviceBase(fields[1]);
    return Entry::Record();
  }

 private:
  // Disks of the file's first host keep their numbers; those of other hosts get others.
  uint64_t DeviceBase(std::string_view host) {
    if (first_host_.empty()) first_host_ = host;
    return host == first_host_ ? 0 : XXH3_64bits(host.data(), host.size()) << 16;
  }

  std::string first_host_;
};

std::unique_ptr<EntryParser> MakeMsrParser(const TraceOptions& /*options*/) {
  return std::make_unique<MsrParser>();
}

Entry ParseHeimdall(std::string_view line, TraceRecord* record) {
  std::array<std::string_view, 5> fields;
  const size_t count = SplitBlanks(line, fields);
  if (count == 0) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not five columns");
  uint64_t op = 0;
  if (!ParseTime(fields[0], kNsPerMs, &record->time_ns)) {
    return Entry::Broken("the time is no number");
  }
  if (!ParseNumber(fields[1], &record->device) || !ParseNumber(fields[2], &record->offset) ||
      !ParseNumber(fields[3], &record->bytes) || !ParseNumber(fields[4], &op)) {
    return Entry::Broken("a column is no number");
  }
  if (op > 1) return Entry::Broken("the operation is neither 1 (read) nor 0 (write)");
  record->op = op == 1 ? TraceOp::kRead : TraceOp::kWrite;
  return Entry::Record();
}

Entry ParseSpc(std::string_view line, TraceRecord* record) {
  std::array<std::string_view, 5> fields;
  const size_t count = SplitCommas(line, fields);
  if (count == 1 && fields[0].empty()) return Entry::Message();
  if (count < fields.size()) return Entry::Broken("it has fewer than five columns");
  uint64_t block = 0;
  if (!ParseNumber(fields[0], &record->device) || !ParseNumber(fields[1], &block) ||
      !ParseNumber(fields[2], &record->bytes)) {
    return Entry::Broken("a column is no number");
  }
  if (__builtin_mul_overflow(block, kSectorBytes, &record->offset)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  const bool read = EqualsIgnoringCase(fields[3], "r");
  if (!read && !EqualsIgnoringCase(fields[3], "w")) {
    return Entry::Broken("the operation is neither R nor W");
  }
  record->op = read ? TraceOp::kRead : TraceOp::kWrite;
  if (!ParseTime(fields[4], kNsPerS, &record->time_ns)) {
    return Entry::Broken("the time is no number");
  }
  return Entry::Record();
}

constexpr std::array kFormats = {
    TraceFormat{.name = "msr",
                .help = "MSR Cambridge CSV: FILETIME,host,disk,Read|Write,offset_bytes,bytes,"
                        "response_100ns",
                .has_latency = true,
                .make_parser = MakeMsrParser},
    TraceFormat{.name = "heimdall",
                .help = "Heimdall, LinnOS: time_ms device offset_bytes bytes op, 1 = read",
                .make_parser = MakeStatelessParser<ParseHeimdall>},
    TraceFormat{.name = "spc",
                .help = "SPC (UMass): unit,sector,bytes,R|W,time_s[,...]",
                .make_parser = MakeStatelessParser<ParseSpc>},
};

}  // namespace

std::span<const TraceFormat> ServerFormats() { return kFormats; }

}  // namespace ebb::env
