#include "api/cli/client.h"

#include <charconv>
#include <cstdlib>
#include <vector>

#include <httplib.h>
#include <sys/stat.h>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::cli {
namespace {

constexpr const char* kDefaultSocket = "/run/ebb/api.sock";
constexpr const char* kDefaultUrl = "http://127.0.0.1:8377";
constexpr time_t kConnectSeconds = 2;
constexpr time_t kReadSeconds = 15;

std::string DefaultUrl() {
  if (const char* from_environment = std::getenv("EBB_URL");
      from_environment != nullptr && *from_environment != '\0') {
    return from_environment;
  }
  struct stat info {};
  if (stat(kDefaultSocket, &info) == 0 && S_ISSOCK(info.st_mode)) {
    return std::string("unix:") + kDefaultSocket;
  }
  return kDefaultUrl;
}

// "detail" of a problem and its faults, e.g. "The body has 1 fault; see errors. goal: must be one
// of read, write, balanced; did you mean 'read'?"
std::string ProblemText(const std::string& body, int status) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("detail") || !json["detail"].is_string()) {
    return fmt::format("the daemon answered with status {} and no explanation", status);
  }
  const auto text_of = [](const nlohmann::json& object, const char* member) {
    return object.contains(member) && object[member].is_string() ? object[member].get<std::string>()
                                                                 : std::string();
  };
  std::vector<std::string> faults;
  if (json.contains("errors") && json["errors"].is_array()) {
    for (const auto& error : json["errors"]) {
      if (!error.is_object()) continue;
      std::string where = text_of(error, "parameter");
      if (where.empty()) where = text_of(error, "pointer");
      if (where.starts_with('/')) where.erase(0, 1);
      const std::string near = text_of(error, "did_you_mean");
      faults.push_back(fmt::format("{}{}{}{}", where, where.empty() ? "" : ": ",
                                   text_of(error, "detail"),
                                   near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
  }
  if (faults.empty()) return text_of(json, "detail");
  return fmt::format("{}", fmt::join(faults, "; "));
}

absl::Status StatusOf(int http_status, const std::string& text) {
  switch (http_status) {
    case 403:
      return absl::PermissionDeniedError(text);
    case 404:
      return absl::NotFoundError(text);
    case 409:
    case 412:
    case 428:
      return absl::FailedPreconditionError(text);
    default:
      return absl::UnknownError(text);
  }
}

}  // namespace

class Client::Impl {
 public:
  Impl(const std::string& host, int port, bool is_unix) : http(host, port) {
    if (is_unix) http.set_address_family(AF_UNIX);
    http.set_connection_timeout(kConnectSeconds);
    http.set_read_timeout(kReadSeconds);
    http.set_keep_alive(true);
  }
  httplib::Client http;
};

Client::Client(std::string url, std::unique_ptr<Impl> impl)
    : url_(std::move(url)), impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Open(const std::string& url) {
  const std::string chosen = url.empty() ? DefaultUrl() : url;
  const auto make = [&](const std::string& host, int port, bool is_unix) {
    return std::unique_ptr<Client>(new Client(chosen, std::make_unique<Impl>(host, port, is_unix)));
  };
  if (chosen.starts_with("unix:/")) return make(chosen.substr(5), 80, true);

  std::string rest = chosen.starts_with("http://") ? chosen.substr(7) : "";
  while (rest.ends_with('/')) rest.pop_back();
  const size_t colon = rest.rfind(':');
  std::string host = rest.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  uint16_t port = 0;
  if (!host.empty() && colon != rest.npos) {
    const char* end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(rest.data() + colon + 1, end, port);
    if (error == std::errc() && stop == end && port != 0) return make(host, port, false);
  }
  return absl::InvalidArgumentError(
      fmt::format("'{}' is no address of a daemon: write http://127.0.0.1:8377 or "
                  "unix:/run/ebb/api.sock (--url or EBB_URL)",
                  chosen));
}

absl::StatusOr<std::string> Client::Call(const std::string& method, const std::string& target,
                                         const std::string& body) {
  httplib::Request request;
  request.method = method;
  request.path = target;
  request.set_header("Host", "localhost");
  if (!body.empty()) {
    request.body = body;
    request.set_header("Content-Type", "application/json");
  }
  const auto result = impl_->http.send(request);
  if (!result) {
    return absl::UnavailableError(fmt::format(
        "no daemon answers at {}; start one with 'ebbd', or name another with --url or EBB_URL",
        url_));
  }
  if (result->status >= 200 && result->status < 300) return result->body;
  return StatusOf(result->status, ProblemText(result->body, result->status));
}

std::string Encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

absl::StatusOr<std::string> ResolveNode(Client& client, const std::string& given) {
  if (!given.empty()) return given;
  auto body = client.Call("GET", "/api/v1/nodes");
  if (!body.ok()) return body.status();
  const auto json = nlohmann::json::parse(*body, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> ids;
  if (json.is_object() && json.contains("nodes")) {
    for (const auto& node : json["nodes"]) ids.push_back(node.value("id", ""));
  }
  if (ids.size() == 1) return ids.front();
  if (ids.empty()) {
    return absl::NotFoundError("no node is attached; attach one with 'ebb attach SOCKET'");
  }
  return absl::InvalidArgumentError(
      fmt::format("several nodes are attached, so name one: {}", fmt::join(ids, ", ")));
}

}  // namespace ebb::cli
