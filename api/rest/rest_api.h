// RestApi answers requests of the REST interface from a TunerService. It knows no sockets: the
// HTTP server hands requests in and sends the answers out, and so do the tests.
//
// One table of routes decides everything about an address: what is served there, which methods are
// allowed (405 and Allow follow from it), and what OPTIONS says. Thread-safe. Handle never throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/rest/codec.h"
#include "api/rest/message.h"
#include "base/clock.h"
#include "engine/tuner_service.h"

namespace ebb::rest {

struct RestApiOptions {
  std::string version;  // of the daemon, e.g. "0.1.0"
  // Called with one line for each request that ended in an internal error; any thread.
  std::function<void(const std::string&)> log_error;
};

// A row of the route table, for documentation and tests.
struct RouteInfo {
  std::string_view method;
  std::string_view pattern;  // "/api/v1/nodes/{node}/goal"
  std::string_view summary;
};

class RestApi {
 public:
  // `service` and `clock` must outlive the object.
  RestApi(engine::TunerService& service, Clock& clock, RestApiOptions options);

  Response Handle(const Request& request);
  // The answer to a request that the server refuses before it is one, e.g. too large a body.
  Response Refuse(const Problem& problem, std::string_view target);
  // What /readyz tells: false until the daemon has attached what its configuration names.
  void SetReady(bool ready) { ready_ = ready; }

  static std::vector<RouteInfo> Routes();

  // For the route handlers.
  engine::TunerService& service() { return service_; }
  Clock& clock() { return clock_; }
  const std::string& version() const { return options_.version; }
  bool ready() const { return ready_; }
  // Every knob ever seen on a node of this daemon, so that old changes keep their words.
  KnobSpecs Specs(const std::vector<std::string>& nodes);
  // Answers so far by hundreds of their status: [2] counts 200 to 299.
  std::array<uint64_t, 6> AnswerCounts() const;

 private:
  Response Answer(const Request& request, std::string_view path, std::string_view query,
                  const std::string& request_id);
  Response Count(Response response, const std::string& request_id);
  std::string NextRequestId();

  engine::TunerService& service_;
  Clock& clock_;
  RestApiOptions options_;
  std::atomic<bool> ready_{false};
  std::atomic<uint64_t> requests_{0};
  std::array<std::atomic<uint64_t>, 6> answers_{};
  uint64_t start_mark_;  // makes request ids of two runs differ
  std::mutex specs_mutex_;
  KnobSpecs specs_;
};

}  // namespace ebb::rest
