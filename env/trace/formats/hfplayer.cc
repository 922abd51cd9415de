// hfplayer CSV (NetApp): the columns are named by the first line and differ from file to file.
//
// Issues (RD_IN, WR_IN) are the requests; completions (RD_OUT, WR_OUT) do not pair with them.
#include <array>
#include <optional>
#include <string>

#include "base/units.h"
#include "env/trace/formats/fields.h"
#include "env/trace/formats/format_table.h"

namespace ebb::env {
namespace {

using trace::TraceOp;
using trace::TraceRecord;

constexpr size_t kColumnsMax = 64;
using Columns = std::array<std::string_view, kColumnsMax>;

class HfplayerParser final : public EntryParser {
 public:
  Entry Parse(std::string_view line, TraceRecord* record) override {
    Columns fields;
    const size_t count = SplitCommas(line, fields);
    if (count == 1 && fields[0].empty()) return Entry::Message();
    if (line.starts_with('#')) return ReadHeader(fields, count);
    if (column_count_ == 0) return Entry::Fatal("the line with the columns' names is missing");
    if (count != column_count_)
      return Entry::Broken("it has not as many columns as the first line");
    const std::string_view command = fields[command_];
    if (command == "RD_OUT" || command == "WR_OUT") return Entry::Other();
    if (command != "RD_IN" && command != "WR_IN") return Entry::Broken("the command is not known");
    record->op = command == "RD_IN" ? TraceOp::kRead : TraceOp::kWrite;
    if (!ParseTime(fields[time_us_], kNsPerUs, &record->time_ns)) {
      return Entry::Broken("the time is no number");
    }
    uint64_t sector = 0;
    uint64_t sectors = 0;
    if (!ParseNumber(fields[sector_], &sector) || !ParseNumber(fields[sectors_], &sectors)) {
      return Entry::Broken("a column is no number");
    }
    if (!SetPlace(sector, sectors, kSectorBytes, record)) {
      return Entry::Broken("it reaches beyond 2^64 bytes");
    }
    if (latency_us_.has_value() &&
        !ParseTime(fields[*latency_us_], kNsPerUs, &record->latency_ns)) {
      return Entry::Broken("the latency is no number");
    }
    return Entry::Record();
  }

 private:
  // `#NAME.TYPE,NAME.TYPE,...`
  Entry ReadHeader(const Columns& fields, size_t count) {
    if (count > kColumnsMax) return Entry::Fatal("it names more than 64 columns");
    std::optional<size_t> time;
    std::optional<size_t> command;
    std::optional<size_t> sector;
    std::optional<size_t> sectors;
    for (size_t i = 0; i < count; ++i) {
      std::string_view name = fields[i].substr(0, fields[i].rfind('.'));
      if (name.starts_with('#')) name.remove_prefix(1);
      if (name == "ELAPSED_USECS") time = i;
      if (name == "CMD") command = i;
      if (name == "LBA") sector = i;
      if (name == "NBLKS") sectors = i;
      if (name == "LATENCY_USECS") latency_us_ = i;
    }
    if (!time || !command || !sector || !sectors) {
      return Entry::Fatal("it does not name ELAPSED_USECS, CMD, LBA and NBLKS");
    }
    time_us_ = *time;
    command_ = *command;
    sector_ = *sector;
    sectors_ = *sectors;
    column_count_ = count;
    return Entry::Message();
  }

  size_t column_count_ = 0;
  size_t time_us_ = 0;
  size_t command_ = 0;
  size_t sector_ = 0;
  size_t sectors_ = 0;
  std::optional<size_t> latency_us_;
};

std::unique_ptr<EntryParser> MakeHfplayerParser(const TraceOptions& /*options*/) {
  return std::make_unique<HfplayerParser>();
}

bool Certain(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\n'));
  return line.starts_with('#') && line.find(",CMD.S,") != line.npos &&
         line.find(",LBA.I,") != line.npos;
}

constexpr std::array kFormats = {
    TraceFormat{.name = "hfp",
                .help = "hfplayer CSV with named columns; the *_IN commands",
                .has_latency = true,
                .certain = Certain,
                .make_parser = MakeHfplayerParser},
};

}  // namespace

std::span<const TraceFormat> HfplayerFormats() { return kFormats; }

}  // namespace ebb::env
