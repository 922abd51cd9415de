#include "api/rest/rest_api.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>

#include "api/rest/routes.h"
#include "fmt/format.h"

namespace ebb::rest {
namespace {

struct Route {
  std::string_view method;
  std::string_view pattern;
  Handler handler;
  bool takes_body;
  std::string_view summary;
};

constexpr Route kRoutes[] = {
    {"GET", "/api/v1", GetRoot, false, "links to everything"},
    {"GET", "/api/v1/version", GetVersion, false, "version of the daemon and of the interface"},
    {"GET", "/api/v1/nodes", GetNodes, false, "every attached node"},
    {"POST", "/api/v1/nodes", PostNode, true, "attach a node by its control socket"},
    {"GET", "/api/v1/nodes/{node}", GetNode, false, "state, goal, index and last window"},
    {"DELETE", "/api/v1/nodes/{node}", DeleteNode, false, "detach; restore=true or false"},
    {"GET", "/api/v1/nodes/{node}/goal", GetGoal, false, "what the node is tuned for"},
    {"PUT", "/api/v1/nodes/{node}/goal", PutGoal, true, "set the goal"},
    {"GET", "/api/v1/nodes/{node}/tuner", GetTuner, false, "mode, state and why"},
    {"PATCH", "/api/v1/nodes/{node}/tuner", PatchTuner, true,
     "set the mode or on_exit, pause or resume"},
    {"POST", "/api/v1/nodes/{node}/restore", PostRestore, false,
     "back to the setting from before attach, and pause"},
    {"GET", "/api/v1/nodes/{node}/knobs", GetKnobs, false, "every knob, its value and source"},
    {"GET", "/api/v1/nodes/{node}/knobs/{knob}", GetKnob, false, "one knob"},
    {"PATCH", "/api/v1/nodes/{node}/knobs/{knob}", PatchKnob, true, "pin or unpin"},
    {"GET", "/api/v1/nodes/{node}/changes", GetNodeChanges, false, "history of one node"},
    {"GET", "/api/v1/nodes/{node}/series", GetSeries, false, "index and measurements over time"},
    {"GET", "/api/v1/recommendations", GetRecommendations, false,
     "what waits for a person, and what was decided"},
    {"GET", "/api/v1/recommendations/{recommendation}", GetRecommendation, false,
     "one recommendation"},
    {"POST", "/api/v1/recommendations/{recommendation}/decision", PostDecision, true,
     "approve it (in mode approve) or reject it"},
    {"GET", "/api/v1/changes", GetChanges, false, "history of every node"},
    {"GET", "/api/v1/changes/{change}", GetChange, false, "one change and its life"},
    {"GET", "/metrics", GetMetrics, false, "Prometheus text"},
    {"GET", "/livez", GetLivez, false, "the process answers"},
    {"GET", "/readyz", GetReadyz, false, "start-up is over"},
    {"GET", "/healthz", GetHealthz, false, "every node is well"},
};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(separator); end != text.npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

// Percent-decoding; nothing when a % is not followed by two hex digits or a byte is a control
// character. `plus_is_space`: of a query.
std::optional<std::string> Decode(std::string_view text, bool plus_is_space) {
  const auto hex = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex(text[i + 1]);
      const int low = hex(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    decoded += c;
  }
  return decoded;
}

// The decoded values of the braces when `path` fits `pattern`. A brace takes one whole, non-empty
// segment; decoding comes after splitting, so an encoded slash stays inside its segment.
std::optional<std::vector<std::string>> MatchPath(std::string_view pattern, std::string_view path) {
  const std::vector<std::string_view> wanted = Split(pattern, '/');
  const std::vector<std::string_view> given = Split(path, '/');
  if (wanted.size() != given.size()) return std::nullopt;
  std::vector<std::string> values;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].starts_with('{')) {
      auto value = Decode(given[i], /*plus_is_space=*/false);
      if (!value || value->empty()) return std::nullopt;
      values.push_back(std::move(*value));
    } else if (wanted[i] != given[i]) {
      return std::nullopt;
    }
  }
  return values;
}

std::optional<std::vector<std::pair<std::string, std::string>>> ParseQuery(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  if (query.empty()) return parameters;
  for (const std::string_view part : Split(query, '&')) {
    const size_t equals = part.find('=');
    auto name = Decode(part.substr(0, equals), /*plus_is_space=*/true);
    auto value = Decode(equals == part.npos ? std::string_view() : part.substr(equals + 1),
                        /*plus_is_space=*/true);
    if (!name || !value) return std::nullopt;
    parameters.emplace_back(std::move(*name), std::move(*value));
  }
  return parameters;
}

// The methods that any route with this path serves, as Allow lists them.
std::string AllowedMethods(std::string_view path) {
  std::set<std::string_view> methods;
  for (const Route& route : kRoutes) {
    if (MatchPath(route.pattern, path)) methods.insert(route.method);
  }
  if (methods.empty()) return {};
  if (methods.contains("GET")) methods.insert("HEAD");
  methods.insert("OPTIONS");
  return fmt::format("{}", fmt::join(methods, ", "));
}

bool IsJsonType(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const size_t end = type.find_last_not_of(' ');
  const std::string_view trimmed = type.substr(0, end == type.npos ? 0 : end + 1);
  return trimmed == "application/json";
}

std::optional<Problem> BodyProblem(const Route& route, const Request& request) {
  if (!route.takes_body) {
    if (request.body.empty()) return std::nullopt;
    return Problem{400,
                   "bad-request",
                   fmt::format("{} {} takes no body.", route.method, route.pattern),
                   {},
                   {}};
  }
  if (IsJsonType(request.content_type)) return std::nullopt;
  return Problem{415,
                 "unsupported-media-type",
                 "Send the body with the header 'Content-Type: application/json'.",
                 {},
                 {}};
}

}  // namespace

Response JsonResponse(std::string body, int status) {
  Response response;
  response.status = status;
  response.body = std::move(body) + "\n";
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

RestApi::RestApi(engine::TunerService& service, Clock& clock, RestApiOptions options)
    : service_(service),
      clock_(clock),
      options_(std::move(options)),
      start_mark_(static_cast<uint64_t>(clock.WallMs())) {}

Response RestApi::Handle(const Request& request) {
  const std::string request_id = NextRequestId();
  const std::string_view target = request.target;
  const size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const std::string_view query =
      question == target.npos ? std::string_view() : target.substr(question + 1);
  std::string failure;
  try {
    return Count(Answer(request, path, query, request_id), request_id);
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "an exception of unknown type";
  }
  if (options_.log_error) {
    options_.log_error(
        fmt::format("request {}: {} {}: {}", request_id, request.method, path, failure));
  }
  return Count(ProblemResponse(ProblemFromStatus(absl::InternalError("")), path, request_id),
               request_id);
}

Response RestApi::Answer(const Request& request, std::string_view path, std::string_view query,
                         const std::string& request_id) {
  const auto problem = [&](const Problem& what) { return ProblemResponse(what, path, request_id); };
  const std::string allowed = AllowedMethods(path);
  if (allowed.empty()) {
    const bool slash = path.size() > 1 && path.ends_with('/') &&
                       !AllowedMethods(path.substr(0, path.size() - 1)).empty();
    return problem({404,
                    "not-found",
                    slash ? "Nothing is served here: leave out the slash at the end."
                          : "Nothing is served here; GET /api/v1 lists what is.",
                    {},
                    {}});
  }
  if (request.method == "OPTIONS") {
    return {204, "", "", {{"Allow", allowed}}};
  }
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  for (const Route& route : kRoutes) {
    if (route.method != method) continue;
    auto values = MatchPath(route.pattern, path);
    if (!values) continue;
    if (auto refused = BodyProblem(route, request)) return problem(*refused);
    auto parameters = ParseQuery(query);
    if (!parameters) {
      return problem({400, "bad-request", "The query is not percent-encoded correctly.", {}, {}});
    }
    Call call{*this, request, std::move(*values), QueryReader(std::move(*parameters))};
    Reply reply = route.handler(call);
    if (auto* response = std::get_if<Response>(&reply)) return std::move(*response);
    return problem(std::get<Problem>(reply));
  }
  return problem({405,
                  "method-not-allowed",
                  fmt::format("This address serves {}.", allowed),
                  {},
                  {{"Allow", allowed}}});
}

Response RestApi::Refuse(const Problem& problem, std::string_view target) {
  const std::string request_id = NextRequestId();
  return Count(ProblemResponse(problem, target.substr(0, target.find('?')), request_id),
               request_id);
}

Response RestApi::Count(Response response, const std::string& request_id) {
  const auto hundreds = static_cast<size_t>(std::clamp(response.status / 100, 0, 5));
  answers_[hundreds].fetch_add(1, std::memory_order_relaxed);
  response.headers.emplace_back("X-Request-Id", request_id);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  return response;
}

std::string RestApi::NextRequestId() {
  return fmt::format("{:x}-{}", start_mark_, requests_.fetch_add(1, std::memory_order_relaxed) + 1);
}

std::array<uint64_t, 6> RestApi::AnswerCounts() const {
  std::array<uint64_t, 6> counts{};
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = answers_[i].load(std::memory_order_relaxed);
  }
  return counts;
}

KnobSpecs RestApi::Specs(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) {
    auto knobs = service_.Knobs(node);
    if (!knobs.ok()) continue;
    const std::lock_guard lock(specs_mutex_);
    for (engine::KnobState& knob : *knobs) specs_[knob.spec.name] = std::move(knob.spec);
  }
  const std::lock_guard lock(specs_mutex_);
  return specs_;
}

std::vector<RouteInfo> RestApi::Routes() {
  std::vector<RouteInfo> routes;
  for (const Route& route : kRoutes) routes.push_back({route.method, route.pattern, route.summary});
  return routes;
}

}  // namespace ebb::rest
