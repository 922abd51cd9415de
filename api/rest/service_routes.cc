// Handlers about the daemon itself: root, version, probes, metrics.
#include "api/rest/metrics_text.h"
#include "api/rest/routes.h"
#include "fmt/format.h"

namespace ebb::rest {
namespace {

Reply Status(std::string_view word, int status) {
  return JsonResponse(fmt::format("{{\"status\":{}}}", QuotedJson(word)), status);
}

}  // namespace

Reply GetRoot(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  std::vector<std::string> routes;
  for (const RouteInfo& route : RestApi::Routes()) {
    routes.push_back(fmt::format("{{\"method\":{},\"path\":{},\"summary\":{}}}",
                                 QuotedJson(route.method), QuotedJson(route.pattern),
                                 QuotedJson(route.summary)));
  }
  return JsonResponse(fmt::format("{{\"version\":{},\"routes\":{}}}",
                                  QuotedJson(call.api.version()), ArrayJson(routes)));
}

Reply GetVersion(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  return JsonResponse(
      fmt::format("{{\"version\":{},\"api_versions\":[\"v1\"]}}", QuotedJson(call.api.version())));
}

Reply GetLivez(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  return Status("ok", 200);
}

Reply GetReadyz(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  return call.api.ready() ? Status("ok", 200) : Status("starting", 503);
}

Reply GetHealthz(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  bool well = call.api.ready();
  std::vector<std::string> nodes;
  for (const engine::NodeStatus& node : call.api.service().Nodes()) {
    well = well && node.connected && node.health == "ok";
    nodes.push_back(fmt::format("{{\"node\":{},\"connected\":{},\"health\":{}}}",
                                QuotedJson(node.id), node.connected, QuotedJson(node.health)));
  }
  return JsonResponse(fmt::format("{{\"status\":{},\"nodes\":{}}}",
                                  QuotedJson(well ? "ok" : "degraded"), ArrayJson(nodes)),
                      well ? 200 : 503);
}

Reply GetMetrics(Call& call) {
  if (auto problem = call.query.Finish()) return *problem;
  MetricsInput input;
  input.version = call.api.version();
  input.answers = call.api.AnswerCounts();
  for (engine::NodeStatus& node : call.api.service().Nodes()) {
    auto knobs = call.api.service().Knobs(node.id);
    input.nodes.emplace_back(std::move(node),
                             knobs.ok() ? std::move(*knobs) : std::vector<engine::KnobState>{});
  }
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = MetricsText(input);
  return response;
}

}  // namespace ebb::rest
