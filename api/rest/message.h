// What goes in and out of RestApi, free of any HTTP library: requests, answers, problems.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace ebb::rest {

struct Request {
  std::string method;  // upper case; HEAD is answered like GET, its body is not sent
  std::string target;  // path and query as received, still percent-encoded
  std::string content_type;
  std::string body;
  std::string actor;  // who asks, as the history names them: "operator:alice"
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// One thing wrong with a request. Either `pointer` (JSON pointer into the body) or `parameter` (of
// the query) says where; both empty: the request as a whole.
struct Fault {
  std::string pointer;
  std::string parameter;
  std::string detail;
  std::string got;           // what the client sent, cut to 80 bytes; empty: not told
  std::string did_you_mean;  // empty: nothing near
};

// An answer of kind RFC 9457. `slug` ends the stable type URI and decides the title.
struct Problem {
  int status = 500;
  std::string_view slug = "internal";
  std::string detail;  // one sentence: what is wrong and what to do
  std::vector<Fault> errors;
  std::vector<std::pair<std::string, std::string>> headers;
};

using Reply = std::variant<Response, Problem>;

// `instance`: the path asked for; `request_id` finds the request in the daemon's log.
Response ProblemResponse(const Problem& problem, std::string_view instance,
                         std::string_view request_id);

// The problem that tells a service's refusal. NotFound is 404, InvalidArgument 422,
// FailedPrecondition, Aborted and AlreadyExists 409, Unavailable 503; all else is 500 without the
// message, which may hold what a client must not see.
Problem ProblemFromStatus(const absl::Status& status);

}  // namespace ebb::rest
