#include "engine/history/change_export.h"

#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/status.h"
#include "base/time_text.h"
#include "engine/public_json.h"

namespace ebb::engine {
namespace {

constexpr uint32_t kChangesPerRead = 200;
constexpr const char* kColumns =
    "id,node,proposed_at,applied_at,decided_at,actor,goal,context,knobs,reason,predicted_mean,"
    "predicted_low,predicted_high,measured_mean,measured_low,measured_high,smallest_detectable,"
    "windows_used,outcome,outcome_reason";

std::string TimeText(int64_t wall_ms) { return wall_ms == 0 ? "" : FormatRfc3339(wall_ms); }

std::string JsonLine(const Change& change) {
  using Json = nlohmann::ordered_json;
  return ChangeToPublicJson(change).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void AddEffect(const std::optional<Effect>& effect, std::vector<std::string>& cells) {
  for (const auto value : {&Effect::mean, &Effect::low, &Effect::high}) {
    cells.push_back(effect ? fmt::format("{}", (*effect).*value) : "");
  }
}

std::string CsvLine(const Change& change) {
  std::string knobs;
  for (const env::KnobChange& knob : change.knobs) {
    knobs +=
        fmt::format("{}{}: {} -> {}", knobs.empty() ? "" : "; ", knob.knob, knob.from, knob.to);
  }
  std::vector<std::string> cells = {std::to_string(change.id),
                                    change.node,
                                    TimeText(change.proposed_ms),
                                    TimeText(change.applied_ms),
                                    TimeText(change.decided_ms),
                                    change.actor,
                                    change.goal,
                                    change.context,
                                    knobs,
                                    change.reason};
  AddEffect(change.predicted, cells);
  AddEffect(change.measured, cells);
  cells.push_back(change.smallest_detectable > 0 ? fmt::format("{}", change.smallest_detectable)
                                                 : "");
  cells.push_back(std::to_string(change.windows_used));
  cells.emplace_back(VerdictWord(change.verdict));
  cells.push_back(change.verdict_reason);
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + CsvCell(cell);
  return line + "\r\n";
}

}  // namespace

std::string ExportHeader(ExportFormat format) {
  return format == ExportFormat::kCsv ? std::string(kColumns) + "\r\n" : "";
}

std::string ExportLine(ExportFormat format, const Change& change) {
  return format == ExportFormat::kCsv ? CsvLine(change) : JsonLine(change);
}

absl::Status ExportChanges(History& history, const std::string& node, ChangeQuery query,
                           ExportFormat format,
                           const std::function<bool(std::string_view line)>& write) {
  query.limit = kChangesPerRead;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const std::vector<Change> page, history.Changes(node, query));
    for (const Change& change : page) {
      if (!write(ExportLine(format, change))) return absl::OkStatus();
    }
    if (page.size() < kChangesPerRead) return absl::OkStatus();
    query.before_id = page.back().id;
  }
}

}  // namespace ebb::engine
