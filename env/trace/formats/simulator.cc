// SSDsim, MQSim and DiskSim: five columns each, with other units and the opposite polarity.
#include <array>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

struct Columns {
  uint64_t device = 0;
  uint64_t sector = 0;
  uint64_t sectors = 0;
  uint64_t flags = 0;
};

// `device sector sectors flags`, the four columns behind the time.
bool ParseColumns(std::span<const std::string_view> fields, Columns* columns) {
  return ParseNumber(fields[1], &columns->device) && ParseNumber(fields[2], &columns->sector) &&
         ParseNumber(fields[3], &columns->sectors) && ParseNumber(fields[4], &columns->flags);
}

Entry ParseFiveColumns(std::string_view line, uint64_t time_unit_ns, Columns* columns,
                       TraceRecord* record) {
  std::array<std::string_view, 5> fields;
  const size_t count = SplitBlanks(line, fields);
  if (count == 0) return Entry::Message();
  if (count != fields.size()) return Entry::Broken("it has not five columns");
  // A fraction of a nanosecond says that these are other units.
  const bool whole = time_unit_ns > 1 || fields[0].find('.') == std::string_view::npos;
  if (!whole || !ParseTime(fields[0], time_unit_ns, &record->time_ns)) {
    return Entry::Broken("the time is no number of the format's units");
  }
  if (!ParseColumns(fields, columns)) return Entry::Broken("a column is no number");
  if (!SetPlace(columns->sector, columns->sectors, kSectorBytes, record)) {
    return Entry::Broken("it reaches beyond 2^64 bytes");
  }
  record->device = columns->device;
  return Entry::Record();
}

Entry ParseMqsim(std::string_view line, TraceRecord* record) {
  Columns columns;
  const Entry entry = ParseFiveColumns(line, 1, &columns, record);
  if (entry.kind != Entry::Kind::kRecord) return entry;
  if (columns.flags > 1) return Entry::Broken("the operation is neither 1 (read) nor 0 (write)");
  record->op = columns.flags == 1 ? TraceOp::kRead : TraceOp::kWrite;
  return entry;
}

Entry ParseDisksim(std::string_view line, TraceRecord* record) {
  Columns columns;
  const Entry entry = ParseFiveColumns(line, kNsPerMs, &columns, record);
  if (entry.kind != Entry::Kind::kRecord) return entry;
  record->op = (columns.flags & 1) != 0 ? TraceOp::kRead : TraceOp::kWrite;
  return entry;
}

constexpr std::array kFormats = {
    TraceFormat{.name = "mqsim",
                .help = "SSDsim and MQSim ASCII: time_ns device sector sectors op, 1 = read",
                .make_parser = MakeStatelessParser<ParseMqsim>},
    TraceFormat{.name = "disksim",
                .help = "DiskSim ASCII: time_ms device sector sectors flags, bit 0 = read",
                .make_parser = MakeStatelessParser<ParseDisksim>},
};

}  // namespace

std::span<const TraceFormat> SimulatorFormats() { return kFormats; }

}  // namespace ebb::env
