// changes, show, series.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "api/cli/client.h"
#include "api/cli/session.h"
#include "api/cli/table.h"
#include "api/cli/views.h"
#include "api/cli/when.h"
#include "base/status.h"
#include "base/time_text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kPageMax = 500;  // what one request may ask for
const std::vector<std::string> kOutcomes = {"pending", "keep", "revert", "inconclusive", "void"};

// A query under construction: "?a=b&c=d".
class Query {
 public:
  void Add(std::string_view name, const std::string& value) {
    text_ += fmt::format("{}{}={}", text_.empty() ? "?" : "&", name, Encode(value));
  }
  void AddIfGiven(std::string_view name, const std::string& value) {
    if (!value.empty()) Add(name, value);
  }
  absl::Status AddTime(std::string_view name, const std::string& value) {
    if (value.empty()) return absl::OkStatus();
    EBB_ASSIGN_OR_RETURN(const int64_t ms, ParseWhen(fmt::format("--{}", name), value));
    Add(name, std::to_string(ms));
    return absl::OkStatus();
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct ChangesOptions {
  std::string node;
  std::string from;
  std::string to;
  std::string knob;
  std::string outcome;
  std::string actor;
  std::string goal;
  std::string context;
  uint64_t limit = 100;
};

absl::Status Changes(Session& session, const ChangesOptions& options) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  Query filters;
  EBB_RETURN_IF_ERROR(filters.AddTime("from", options.from));
  EBB_RETURN_IF_ERROR(filters.AddTime("to", options.to));
  filters.AddIfGiven("knob", options.knob);
  filters.AddIfGiven("outcome", options.outcome);
  filters.AddIfGiven("actor", options.actor);
  filters.AddIfGiven("goal", options.goal);
  filters.AddIfGiven("context", options.context);
  const std::string path = options.node.empty()
                               ? "/api/v1/changes"
                               : "/api/v1/nodes/" + Encode(options.node) + "/changes";
  Json changes = Json::array();
  std::string cursor;
  while (changes.size() < options.limit) {
    Query query = filters;
    query.Add("limit", std::to_string(std::min(kPageMax, options.limit - changes.size())));
    query.AddIfGiven("cursor", cursor);
    EBB_ASSIGN_OR_RETURN(const std::string body, client->Call("GET", path + query.text()));
    EBB_ASSIGN_OR_RETURN(Json page, ParseObject(body));
    for (Json& change : page["changes"]) changes.push_back(std::move(change));
    cursor = Text(page, "next_cursor");
    if (cursor.empty()) break;
  }
  PrintChanges(session, changes);
  if (changes.empty()) session.Note("no change matches");
  if (!cursor.empty()) session.Note("older changes were left out; ask for more with --limit");
  return absl::OkStatus();
}

absl::Status Show(Session& session, const std::string& id) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       client->Call("GET", "/api/v1/changes/" + Encode(id)));
  EBB_ASSIGN_OR_RETURN(const Json change, ParseObject(body));
  PrintChange(session, change);
  return absl::OkStatus();
}

struct SeriesOptions {
  std::string node;
  std::string from;
  std::string to;
  uint64_t max_points = 60;
};

// A cell of a series: numbers with a few digits for people, exact ones for programs.
std::string Cell(const Json& value, Format format) {
  if (value.is_null()) return format == Format::kCsv ? "" : "-";
  if (value.is_number_float() && format == Format::kTable) {
    return fmt::format("{:.6g}", value.get<double>());
  }
  return value.dump();
}

absl::Status Series(Session& session, const SeriesOptions& options) {
  EBB_ASSIGN_OR_RETURN(auto client, Client::Open(session.url));
  EBB_ASSIGN_OR_RETURN(const std::string node, ResolveNode(*client, options.node));
  Query query;
  EBB_RETURN_IF_ERROR(query.AddTime("from", options.from));
  EBB_RETURN_IF_ERROR(query.AddTime("to", options.to));
  query.Add("max_points", std::to_string(options.max_points));
  EBB_ASSIGN_OR_RETURN(const std::string body, client->Call("GET", "/api/v1/nodes/" + Encode(node) +
                                                                       "/series" + query.text()));
  EBB_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  if (session.format == Format::kJson) {
    session.Print(json.dump(2) + "\n");
    return absl::OkStatus();
  }
  Json columns = Object(json, "series");
  if (session.format == Format::kCsv) {
    // There is room for the extremes; they are null where every row is one window.
    for (const char* part : {"min", "max"}) {
      const Json extremes = Object(json, part);
      for (const auto& [name, column] : extremes.items()) {
        columns[name + "_" + part] = column;
      }
    }
  }
  std::vector<std::string> titles;
  size_t rows = 0;
  for (const auto& [name, column] : columns.items()) {
    titles.push_back(name == "time_ms" ? "time" : name);
    rows = column.is_array() ? column.size() : 0;
  }
  Table table(titles);
  for (size_t row = 0; row < rows; ++row) {
    std::vector<std::string> cells;
    for (const auto& [name, column] : columns.items()) {
      const Json value = row < column.size() ? column[row] : Json();
      cells.push_back(name == "time_ms" && value.is_number() ? FormatRfc3339(value.get<int64_t>())
                                                             : Cell(value, session.format));
    }
    table.Add(std::move(cells));
  }
  table.Print(session);
  if (rows == 0) session.Note("no window was measured in that time");
  return absl::OkStatus();
}

}  // namespace

void AddHistoryCommands(CLI::App& app, Session& session) {
  CLI::App* changes =
      app.add_subcommand("changes", "the history: what changed, why, what came of it");
  changes->footer(
      "Examples:\n"
      "  ebb changes                          the newest 100, of every node\n"
      "  ebb changes alpha --outcome revert --from 24h\n"
      "  ebb changes --knob destage_watermark --csv > changes.csv\n"
      "  ebb changes --json --limit 5000      as the REST interface gives them");
  auto filter = std::make_shared<ChangesOptions>();
  changes->add_option("node", filter->node, "only this node's");
  changes->add_option("--from", filter->from, "proposed at or after: 1h (ago), a time, now");
  changes->add_option("--to", filter->to, "proposed before, likewise");
  changes->add_option("--knob", filter->knob, "that move this knob");
  changes->add_option("--outcome", filter->outcome, "keep, revert, inconclusive, void or pending")
      ->check(CLI::IsMember(kOutcomes));
  changes->add_option("--actor", filter->actor, "by whom: agent, operator, operator:alice, node");
  changes->add_option("--goal", filter->goal, "made for this goal");
  changes->add_option("--context", filter->context, "made under this load, such as c3");
  changes->add_option("--limit", filter->limit, "at most so many (100)")
      ->check(CLI::Range(1, 1'000'000));
  changes->callback([&session, filter] {
    session.chosen = [filter](Session& s) { return Changes(s, *filter); };
  });

  CLI::App* show = app.add_subcommand("show", "one change with its reason, evidence and life");
  auto id = std::make_shared<std::string>();
  show->add_option("id", *id, "its number, as 'ebb changes' lists it")->required();
  show->callback([&session, id] { session.chosen = [id](Session& s) { return Show(s, *id); }; });

  CLI::App* series = app.add_subcommand("series", "index and measurements over time");
  series->footer("Example:\n  ebb series --from 10min --csv --max-points 600 > windows.csv");
  auto range = std::make_shared<SeriesOptions>();
  series->add_option("node", range->node, "may be left out when one node is attached");
  series->add_option("--from", range->from, "1h (ago, the default), a time, or now");
  series->add_option("--to", range->to, "likewise; default now");
  series->add_option("--max-points", range->max_points, "rows at most (60)")
      ->check(CLI::Range(1, 5'000));
  series->callback(
      [&session, range] { session.chosen = [range](Session& s) { return Series(s, *range); }; });
}

}  // namespace ebb::cli
