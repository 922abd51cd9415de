// Handlers of the change history and of the series behind the charts.
#include <charconv>
#include <optional>

#include "api/rest/node_problem.h"
#include "api/rest/routes.h"
#include "api/rest/words.h"
#include "fmt/format.h"

namespace ebb::rest {
namespace {

constexpr uint64_t kPageDefault = 100;
constexpr uint64_t kPageMax = 500;
constexpr int64_t kSeriesDefaultMs = 3'600'000;
constexpr uint64_t kSeriesPointsDefault = 800;
constexpr uint64_t kSeriesPointsMax = 5'000;

std::optional<uint64_t> ParseId(std::string_view text) {
  uint64_t id = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end || id == 0) return std::nullopt;
  return id;
}

// The cursor is the id of the last change on the page before; clients must not rely on that.
std::string CursorOf(uint64_t id) { return fmt::format("c{}", id); }

std::optional<uint64_t> ParseCursor(std::string_view text) {
  if (!text.starts_with('c')) return std::nullopt;
  return ParseId(text.substr(1));
}

engine::ChangeQuery ReadQuery(QueryReader& reader) {
  const auto outcomes = OutcomeWords();
  engine::ChangeQuery query;
  query.from_ms = reader.Time("from");
  query.to_ms = reader.Time("to");
  query.knob = reader.Text("knob").value_or("");
  if (const auto outcome = reader.Word("outcome", outcomes)) {
    query.verdict = static_cast<engine::Verdict>(*outcome);
  }
  query.actor = reader.Text("actor").value_or("");
  query.goal = reader.Text("goal").value_or("");
  query.context = reader.Text("context").value_or("");
  query.limit = static_cast<uint32_t>(reader.Count("limit", 1, kPageMax).value_or(kPageDefault));
  if (const auto cursor = reader.Text("cursor")) {
    query.before_id = ParseCursor(*cursor);
    if (!query.before_id) {
      reader.AddFault("cursor", "is not a cursor: take next_cursor of the page before");
    }
  }
  if (query.from_ms && query.to_ms && *query.from_ms >= *query.to_ms) {
    reader.AddFault("to", "must be later than from");
  }
  return query;
}

Reply Page(Call& call, const std::string& node) {
  engine::ChangeQuery query = ReadQuery(call.query);
  if (auto problem = call.query.Finish()) return *problem;
  engine::TunerService& service = call.api.service();
  auto changes = service.Changes(node, query);
  if (!changes.ok()) return NodeProblem(service, node, changes.status());

  std::string next = "null";
  if (changes->size() == query.limit) {
    // A full page may be the last one; only asking for one more tells.
    query.before_id = changes->back().id;
    query.limit = 1;
    const auto more = service.Changes(node, query);
    if (more.ok() && !more->empty()) next = QuotedJson(CursorOf(changes->back().id));
  }
  std::vector<std::string> nodes;
  if (!node.empty()) {
    nodes.push_back(node);
  } else {
    for (const auto& status : service.Nodes()) nodes.push_back(status.id);
  }
  const KnobSpecs specs = call.api.Specs(nodes);
  std::vector<std::string> values;
  for (const engine::Change& change : *changes) values.push_back(ChangeJson(change, specs));
  return JsonResponse(
      fmt::format("{{\"changes\":{},\"next_cursor\":{}}}", ArrayJson(values), next));
}

}  // namespace

Reply GetChanges(Call& call) { return Page(call, ""); }

Reply GetNodeChanges(Call& call) { return Page(call, call.path[0]); }

Reply GetChange(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  const auto id = ParseId(call.path[0]);
  if (!id) {
    return Problem{404, "not-found", "A change is named by its number, such as 42.", {}, {}};
  }
  auto change = call.api.service().GetChange(*id);
  if (!change.ok()) return ProblemFromStatus(change.status());
  return JsonResponse(ChangeJson(*change, call.api.Specs({change->node})));
}

Reply GetSeries(Call& call) {
  const auto from = call.query.Time("from");
  const auto to = call.query.Time("to");
  const auto points = call.query.Count("max_points", 1, kSeriesPointsMax);
  // The window that ended just now belongs to "now".
  const int64_t to_ms = to.value_or(call.api.clock().WallMs() + 1);
  const int64_t from_ms =
      from.value_or(to_ms > INT64_MIN + kSeriesDefaultMs ? to_ms - kSeriesDefaultMs : to_ms);
  if (from_ms >= to_ms)
    call.query.AddFault(from ? "from" : "to", "must leave time between from and to");
  if (auto problem = call.query.Finish()) return *problem;
  const std::string& node = call.path[0];
  auto series =
      call.api.service().ReadSeries(node, from_ms, to_ms, points.value_or(kSeriesPointsDefault));
  if (!series.ok()) return NodeProblem(call.api.service(), node, series.status());
  return JsonResponse(SeriesJson(node, from_ms, to_ms, *series));
}

}  // namespace ebb::rest
