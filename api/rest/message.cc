#include "api/rest/message.h"

#include <algorithm>
#include <array>

#include "nlohmann/json.hpp"

namespace ebb::rest {
namespace {

struct Title {
  std::string_view slug;
  std::string_view title;
};

constexpr std::array<Title, 17> kTitles = {{
    {"bad-request", "Bad request"},
    {"bad-parameter", "Query parameters are not valid"},
    {"malformed-json", "Body is not valid JSON"},
    {"foreign-origin", "Request comes from a foreign origin"},
    {"not-found", "No such resource"},
    {"method-not-allowed", "Method not allowed here"},
    {"conflict", "Refused in the present state"},
    {"length-required", "Content-Length is required"},
    {"too-large", "Body is too large"},
    {"uri-too-long", "Address is too long"},
    {"unsupported-media-type", "Body must be application/json"},
    {"range-not-supported", "Ranges are not served"},
    {"invalid-content", "Body does not describe a valid request"},
    {"header-too-large", "Header is too large"},
    {"timeout", "Request did not arrive in time"},
    {"internal", "Internal error"},
    {"unavailable", "Not available now"},
}};

std::string_view TitleOf(std::string_view slug) {
  const auto* found = std::find_if(kTitles.begin(), kTitles.end(),
                                   [&](const Title& title) { return title.slug == slug; });
  return found == kTitles.end() ? std::string_view("Error") : found->title;
}

}  // namespace

Response ProblemResponse(const Problem& problem, std::string_view instance,
                         std::string_view request_id) {
  nlohmann::ordered_json json;
  json["type"] = "/docs/problems/" + std::string(problem.slug);
  json["title"] = TitleOf(problem.slug);
  json["status"] = problem.status;
  json["detail"] = problem.detail;
  json["instance"] = instance;
  json["request_id"] = request_id;
  if (!problem.errors.empty()) {
    auto& errors = json["errors"] = nlohmann::ordered_json::array();
    for (const Fault& fault : problem.errors) {
      nlohmann::ordered_json entry;
      if (!fault.parameter.empty()) {
        entry["parameter"] = fault.parameter;
      } else {
        entry["pointer"] = fault.pointer;
      }
      entry["detail"] = fault.detail;
      if (!fault.got.empty()) entry["got"] = fault.got;
      if (!fault.did_you_mean.empty()) entry["did_you_mean"] = fault.did_you_mean;
      errors.push_back(std::move(entry));
    }
  }
  Response response;
  response.status = problem.status;
  response.content_type = "application/problem+json";
  // Replaces bytes that are not UTF-8: what a client sent may come back in a message.
  response.body =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  response.headers = problem.headers;
  return response;
}

Problem ProblemFromStatus(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return {404, "not-found", message, {}, {}};
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return {422, "invalid-content", message, {}, {}};
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return {409, "conflict", message, {}, {}};
    case absl::StatusCode::kUnavailable:
      return {503, "unavailable", message, {}, {{"Retry-After", "2"}}};
    default:
      return {500,
              "internal",
              "The daemon could not do this; its log tells why under this request_id.",
              {},
              {}};
  }
}

}  // namespace ebb::rest
