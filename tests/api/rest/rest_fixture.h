// RestFixture: a RestApi over a FakeTunerService behind a real HTTP server on a free loopback port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include "api/rest/http_server.h"
#include "api/rest/rest_api.h"
#include "base/clock.h"
#include "tests/api/rest/fake_tuner_service.h"

namespace ebb::rest {

class RestFixture : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    nlohmann::json json;
    httplib::Headers headers;
    std::string body;
  };

  void SetUp() override { StartServer({}); }

  void StartServer(HttpServerOptions options) {
    server_.reset();
    if (!options.address.is_unix()) options.address.host = "127.0.0.1";
    auto started = HttpServer::Start(options, api_);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started);
  }

  Answer Ask(const std::string& method, const std::string& target, const std::string& body = "",
             httplib::Headers headers = {}) {
    httplib::Client client("127.0.0.1", server_->address().port);
    httplib::Request request;
    request.method = method;
    request.path = target;
    request.headers = std::move(headers);
    if (!body.empty()) {
      request.body = body;
      if (!request.has_header("Content-Type")) {
        request.set_header("Content-Type", "application/json");
      }
    }
    const auto result = client.send(request);
    EXPECT_TRUE(result) << method << " " << target << ": " << httplib::to_string(result.error());
    if (!result) return {};
    return {result->status, nlohmann::json::parse(result->body, nullptr, false), result->headers,
            result->body};
  }
  Answer Get(const std::string& target) { return Ask("GET", target); }

  // Sends bytes as they are and returns all that comes back until the server closes.
  std::string Exchange(const std::string& bytes);

  // The answer is a problem of this status with a request id and the members RFC 9457 names.
  static void ExpectProblem(const Answer& answer, int status, const std::string& slug) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.json.value("type", ""), "/docs/problems/" + slug) << answer.body;
    EXPECT_EQ(answer.json.value("status", 0), status);
    EXPECT_NE(answer.json.value("detail", ""), "");
    EXPECT_NE(answer.json.value("title", ""), "");
    EXPECT_NE(answer.json.value("request_id", ""), "");
    const auto type = answer.headers.find("Content-Type");
    ASSERT_NE(type, answer.headers.end());
    EXPECT_EQ(type->second, "application/problem+json");
  }

  ManualClock clock_;
  engine::FakeTunerService service_;
  std::vector<std::string> errors_;
  RestApi api_{
      service_, clock_, {"9.8.7", [this](const std::string& line) { errors_.push_back(line); }}};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace ebb::rest
