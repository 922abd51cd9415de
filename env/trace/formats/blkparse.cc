// blkparse's default text:
//
//   major,minor cpu sequence time_s pid action RWBS [sector + sectors] [process]
//
// One request shows as several events (A remap, Q queue, G, I, D issue, C complete): exactly one of
// them counts. Q is what the file system asked for, D what went to the device after merging. Of A
// and Q with the same place only Q counts. Messages (m) and the tables at the end are no events.
#include <array>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"
#include "env/trace/formats/request_flags.h"

namespace ebb::env {
namespace {

using trace::TraceRecord;

// The columns of every event.
enum Column : uint8_t {
  kDevice,
  kCpu,
  kSequence,
  kTime,
  kPid,
  kAction,
  kRwbs,
  kSector,
  kPlus,
  kSectors
};
constexpr size_t kColumns = kSectors + 1;
constexpr size_t kActionColumns = kAction + 1;

bool ParseDevice(std::string_view text, uint64_t* device) {
  const size_t comma = text.find(',');
  uint64_t major = 0;
  uint64_t minor = 0;
  if (comma == text.npos || !ParseNumber(text.substr(0, comma), &major) ||
      !ParseNumber(text.substr(comma + 1), &minor) || major >= 1U << 12 || minor >= 1U << 20) {
    return false;
  }
  *device = major << 20 | minor;
  return true;
}

// "FWFS": a flush before (F), the kind (W), forced unit access (F), then attributes.
RequestFlags ParseRwbs(std::string_view text) {
  RequestFlags flags;
  if (text.starts_with('F')) {
    flags.preflush = true;
    text.remove_prefix(1);
  }
  const char kind = text.empty() ? 'N' : text.front();
  flags.read = kind == 'R';
  flags.write = kind == 'W';
  flags.discard = kind == 'D';
  if (!text.empty()) text.remove_prefix(1);
  flags.fua = text.find('F') != text.npos;
  return flags;
}

template <char kEvent>
class BlkparseParser final : public EntryParser {
 public:
  Entry Parse(std::string_view line, TraceRecord* record) override {
    further_ = 0;
    std::array<std::string_view, kColumns> fields;
    const size_t count = SplitBlanks(line, fields);
    if (count == 0) return Entry::Message();
    uint64_t number = 0;
    const bool event =
        count >= kActionColumns && ParseDevice(fields[kDevice], &record->device) &&
        ParseNumber(fields[kCpu], &number) && ParseNumber(fields[kSequence], &number) &&
        ParseTime(fields[kTime], kNsPerS, &record->time_ns) && ParseNumber(fields[kPid], &number);
    if (!event) return NoEvent(line);
    summary_ = false;
    const std::string_view action = fields[kAction];
    if (action == "m") return Entry::Message();
    if (action.size() != 1 || action[0] != kEvent) return Entry::Other();
    if (count <= kRwbs) return Entry::Broken("the event has no kind");
    return ParseEvent(fields, count, record);
  }

  bool TakeFurther(TraceRecord* record) override {
    if (further_ == 0 || further_ >= requests_.count) return false;
    *record = requests_.records[further_++];
    return true;
  }

 private:
  Entry ParseEvent(const std::array<std::string_view, kColumns>& fields, size_t count,
                   TraceRecord* record) {
    uint64_t sector = 0;
    uint64_t sectors = 0;
    if (count >= kColumns && fields[kPlus] == "+") {
      if (!ParseNumber(fields[kSector], &sector) || !ParseNumber(fields[kSectors], &sectors)) {
        return Entry::Broken("the place is no number");
      }
      if (!SetPlace(sector, sectors, kSectorBytes, record)) {
        return Entry::Broken("it reaches beyond 2^64 bytes");
      }
    }
    requests_ = RequestsOf(ParseRwbs(fields[kRwbs]), *record);
    if (requests_.count == 0) return Entry::Other();  // a passthrough command
    *record = requests_.records[0];
    further_ = 1;
    return Entry::Record();
  }

  // Anything else is right only where blkparse writes it: before the events and after them.
  Entry NoEvent(std::string_view line) {
    if (line.starts_with("Input file ")) return Entry::Message();
    summary_ = summary_ || line.starts_with("CPU") || line.starts_with("Total (");
    return summary_ ? Entry::Message() : Entry::Broken("it is no event of blkparse");
  }

  bool summary_ = false;
  EventRequests requests_;
  size_t further_ = 0;
};

template <char kEvent>
std::unique_ptr<EntryParser> MakeBlkparseParser(const TraceOptions& /*options*/) {
  return std::make_unique<BlkparseParser<kEvent>>();
}

constexpr std::array kFormats = {
    TraceFormat{.name = "blkparse",
                .help = "blkparse text, Q events: what was asked for",
                .make_parser = MakeBlkparseParser<'Q'>},
    TraceFormat{.name = "blkparse-d",
                .help = "blkparse text, D events: what went to the device, merged",
                .make_parser = MakeBlkparseParser<'D'>},
};

}  // namespace

std::span<const TraceFormat> BlkparseFormats() { return kFormats; }

}  // namespace ebb::env
