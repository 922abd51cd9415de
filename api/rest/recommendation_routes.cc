// Handlers of /api/v1/recommendations and below.
#include <algorithm>
#include <array>
#include <optional>

#include "api/rest/node_problem.h"
#include "api/rest/routes.h"
#include "api/rest/words.h"
#include "base/nearest.h"
#include "fmt/format.h"

namespace ebb::rest {
namespace {

constexpr size_t kReasonBytesMax = 500;
constexpr std::array<std::string_view, 2> kDecisions = {"approve", "reject"};

Problem NoSuchRecommendation(const std::string& id,
                             const std::vector<engine::Recommendation>& known) {
  std::vector<std::string_view> ids;
  for (const auto& one : known) ids.push_back(one.id);
  const std::string_view near = NearestWord(id, ids);
  return {404,
          "not-found",
          near.empty() ? "There is no such recommendation; GET /api/v1/recommendations lists them."
                       : fmt::format("There is no such recommendation; did you mean '{}'?", near),
          {},
          {}};
}

Reply OneReply(Call& call, const engine::Recommendation& advice) {
  return JsonResponse(RecommendationJson(advice, call.api.Specs({advice.node})));
}

}  // namespace

Reply GetRecommendations(Call& call) {
  const auto words = RecommendationStateWords();
  const std::string node = call.query.Text("node").value_or("");
  const auto state = call.query.Word("state", words);
  if (auto problem = call.query.Finish()) return *problem;
  auto all = call.api.service().Recommendations(node);
  if (!all.ok()) return NodeProblem(call.api.service(), node, all.status());
  std::vector<std::string> nodes;
  for (const auto& one : *all) nodes.push_back(one.node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  const KnobSpecs specs = call.api.Specs(nodes);
  std::vector<std::string> values;
  for (const engine::Recommendation& one : *all) {
    if (state && one.state != static_cast<engine::RecommendationState>(*state)) continue;
    values.push_back(RecommendationJson(one, specs));
  }
  return JsonResponse("{\"recommendations\":" + ArrayJson(values) + "}");
}

Reply GetRecommendation(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  auto all = call.api.service().Recommendations("");
  if (!all.ok()) return ProblemFromStatus(all.status());
  for (const engine::Recommendation& one : *all) {
    if (one.id == call.path[0]) return OneReply(call, one);
  }
  return NoSuchRecommendation(call.path[0], *all);
}

Reply PostDecision(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  BodyReader body(call.request.body);
  const auto decision = body.Word("decision", kDecisions, Presence::kRequired);
  const auto reason = body.Text("reason", kReasonBytesMax, Presence::kOptional);
  if (auto problem = body.Finish()) return *problem;
  engine::TunerService& service = call.api.service();
  const bool approve = *decision == 0;
  auto decided =
      service.DecideRecommendation(call.path[0], approve, reason.value_or(""), call.request.actor);
  if (decided.ok()) return OneReply(call, *decided);
  if (decided.status().code() == absl::StatusCode::kNotFound) {
    auto all = service.Recommendations("");
    if (all.ok()) return NoSuchRecommendation(call.path[0], *all);
  }
  return ProblemFromStatus(decided.status());
}

}  // namespace ebb::rest
