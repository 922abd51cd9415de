#include "api/rest/http_server.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <thread>
#include <utility>

#include <httplib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/rest/bounded_stream.h"
#include "api/rest/peer_identity.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::rest {
namespace {

constexpr int kWriteMsMax = 5'000;
constexpr int kBacklog = 128;
constexpr mode_t kSocketMode = 0660;

// httplib's view of a BoundedStream.
class StreamAdapter final : public httplib::Stream {
 public:
  explicit StreamAdapter(BoundedStream& stream) : stream_(stream) {}
  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* out, size_t size) override { return stream_.Read(out, size); }
  ssize_t write(const char* bytes, size_t size) override {
    return stream_.WriteAll({bytes, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  socket_t socket() const override { return stream_.socket(); }

 private:
  BoundedStream& stream_;
};

// What one connection's thread knows of the request it serves.
struct Connection {
  BoundedStream& stream;
  bool is_unix = false;
  std::string actor;               // found at the first write
  bool header_seen = false;        // of the present request
  bool has_body = false;           // likewise
  std::optional<Problem> refusal;  // likewise: answered without reading the body
};

// The connection that this thread serves; httplib's hooks get no other word of it.
thread_local Connection* current_connection = nullptr;

bool IsWrite(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

// "localhost", "127.0.0.1" or "[::1]", with or without a port.
bool IsLocalHost(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != host.npos && host.find(']', colon) == host.npos;
  std::string name(host.substr(0, has_port ? colon : host.npos));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

// A page of another site may make the browser send requests here, by its own name for this address
// (DNS rebinding) or plainly (cross-site); neither may reach a tuner.
std::optional<Problem> OriginProblem(const httplib::Request& request, bool is_unix) {
  const std::string host = request.get_header_value("Host");
  if (!is_unix && request.has_header("Host") && !IsLocalHost(host)) {
    return Problem{
        403, "foreign-origin", "The Host header must name localhost, 127.0.0.1 or [::1].", {}, {}};
  }
  if (request.has_header("Origin") && request.get_header_value("Origin") != "http://" + host) {
    return Problem{403,
                   "foreign-origin",
                   "The Origin header names another site; requests from web pages must come from "
                   "this daemon's own pages.",
                   {},
                   {}};
  }
  return std::nullopt;
}

// The body's length as the header tells it; nothing when the header contradicts itself.
std::optional<uint64_t> BodyBytes(const httplib::Request& request) {
  const size_t count = request.get_header_value_count("Content-Length");
  if (count == 0) return 0;
  const std::string text = request.get_header_value("Content-Length");
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (count > 1 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return bytes;
}

std::optional<Problem> BodyHeaderProblem(const httplib::Request& request,
                                         const HttpServerOptions& options, uint64_t bytes) {
  if (!IsWrite(request.method)) {
    return Problem{400, "bad-request", fmt::format("{} takes no body.", request.method), {}, {}};
  }
  if (bytes > options.body_bytes_max) {
    return Problem{
        413,
        "too-large",
        fmt::format("The body has {} bytes; {} are allowed.", bytes, options.body_bytes_max),
        {},
        {}};
  }
  if (request.has_header("Content-Encoding")) {
    return Problem{
        415, "unsupported-media-type", "Send the body without Content-Encoding.", {}, {}};
  }
  // httplib takes forms apart by itself; only plain JSON may get as far as being read.
  const std::string type = request.get_header_value("Content-Type");
  if (type.rfind("application/json", 0) != 0) {
    return Problem{415,
                   "unsupported-media-type",
                   "Send the body with the header 'Content-Type: application/json'.",
                   {},
                   {}};
  }
  return std::nullopt;
}

std::optional<Problem> HeaderProblem(const httplib::Request& request,
                                     const HttpServerOptions& options, bool is_unix) {
  if (request.target.size() > options.target_bytes_max) {
    return Problem{414,
                   "uri-too-long",
                   fmt::format("The address may have {} bytes.", options.target_bytes_max),
                   {},
                   {}};
  }
  if (auto problem = OriginProblem(request, is_unix)) return problem;
  if (request.has_header("Transfer-Encoding")) {
    return Problem{411,
                   "length-required",
                   "Send the body with Content-Length; chunked bodies are not accepted.",
                   {},
                   {}};
  }
  if (request.has_header("Range")) {
    return Problem{416, "range-not-supported", "Ask without the Range header.", {}, {}};
  }
  const std::optional<uint64_t> bytes = BodyBytes(request);
  if (!bytes) {
    return Problem{400, "bad-request", "Content-Length must be one whole number.", {}, {}};
  }
  return *bytes > 0 ? BodyHeaderProblem(request, options, *bytes) : std::nullopt;
}

void Fill(httplib::Response& out, Response&& response) {
  out.status = response.status;
  for (const auto& [name, value] : response.headers) out.set_header(name, value);
  if (!response.body.empty()) out.set_content(std::move(response.body), response.content_type);
}

class Server final : public httplib::Server {
 public:
  Server(const HttpServerOptions& options, RestApi& api, int wake)
      : options_(options), api_(api), wake_(wake) {
    new_task_queue = [threads = options.threads] { return new httplib::ThreadPool(threads); };
    set_payload_max_length(options.body_bytes_max);
    // httplib would set SO_REUSEPORT as well, with which two daemons could share one port.
    set_socket_options([](socket_t sock) {
      const int yes = 1;
      setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_tcp_nodelay(true);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Connection& connection = *current_connection;
      if (connection.refusal) {
        Fill(response, api_.Refuse(*connection.refusal, request.target));
        return HandlerResponse::Handled;
      }
      if (connection.has_body) return HandlerResponse::Unhandled;
      Dispatch(request, response);
      return HandlerResponse::Handled;
    });
    const auto dispatch = [this](const httplib::Request& request, httplib::Response& response) {
      Dispatch(request, response);
    };
    Post(".*", dispatch);
    Put(".*", dispatch);
    Patch(".*", dispatch);
    Delete(".*", dispatch);
    set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty()) ExplainRefusalOfLibrary(request, response);
    });
    set_exception_handler(
        [this](const httplib::Request& request, httplib::Response& response, std::exception_ptr) {
          Fill(response, api_.Refuse(ProblemFromStatus(absl::InternalError("")), request.target));
        });
  }

  // httplib's own backlog is 5, fixed when the library was built.
  void WidenBacklog() { ::listen(svr_sock_, kBacklog); }

 private:
  void Dispatch(const httplib::Request& request, httplib::Response& response) {
    Connection& connection = *current_connection;
    if (connection.actor.empty() && IsWrite(request.method)) {
      connection.actor = PeerActor(connection.stream.socket());
    }
    Request asked;
    asked.method = request.method;
    asked.target = request.target;
    asked.content_type = request.get_header_value("Content-Type");
    asked.body = request.body;
    asked.actor = connection.actor;
    Fill(response, api_.Handle(asked));
  }

  // A request that httplib itself could not take apart.
  void ExplainRefusalOfLibrary(const httplib::Request& request, httplib::Response& response) {
    const BoundedStream& stream = current_connection->stream;
    Problem problem{400, "bad-request", "The request is not valid HTTP/1.1.", {}, {}};
    if (stream.header_too_large()) {
      problem = HeaderTooLarge();
    } else if (stream.timed_out()) {
      problem = {408, "timeout", "The request did not arrive in time.", {}, {}};
    } else if (response.status == 414) {
      problem = {414, "uri-too-long", "The address is too long.", {}, {}};
    } else if (response.status == 416) {
      problem = {416, "range-not-supported", "Ask without the Range header.", {}, {}};
    } else if (response.status == 413) {
      problem = {413, "too-large", "The body is too large.", {}, {}};
    }
    Fill(response, api_.Refuse(problem, request.target));
  }

  Problem HeaderTooLarge() const {
    return {431,
            "header-too-large",
            fmt::format("The request's header may have {} bytes.", options_.header_bytes_max),
            {},
            {}};
  }

  // Written without httplib, which gives up silently when the request line does not end.
  void RefuseEndlessLine(BoundedStream& stream) {
    const Response response = api_.Refuse(HeaderTooLarge(), "");
    stream.WriteAll(
        fmt::format("HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: "
                    "close\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                    response.content_type, response.body.size(), response.body));
  }

  void TakeHeader(Connection& connection, httplib::Request& request) const {
    connection.stream.EndHeader();
    connection.header_seen = true;
    connection.refusal = HeaderProblem(request, options_, connection.is_unix);
    connection.has_body = BodyBytes(request).value_or(0) > 0;
    request.ranges.clear();
    if (connection.refusal) {
      // The body stays unread, so nothing after it can be understood.
      request.headers.erase("Connection");
      request.set_header("Connection", "close");
      request.headers.erase("Expect");
    }
  }

  bool process_and_close_socket(socket_t sock) override {
    BoundedStream stream(sock, wake_,
                         {options_.header_bytes_max, options_.request_ms_max, kWriteMsMax});
    StreamAdapter adapter(stream);
    Connection connection{stream, options_.address.is_unix(), {}, false, false, std::nullopt};
    current_connection = &connection;
    for (size_t served = 1; stream.WaitForRequest(options_.idle_ms_max); ++served) {
      connection.header_seen = false;
      connection.has_body = false;
      connection.refusal.reset();
      bool closed = false;
      const bool last = served == options_.requests_per_connection_max;
      const bool answered = process_request(adapter, last, closed, [&](httplib::Request& request) {
        TakeHeader(connection, request);
      });
      if (!answered && !connection.header_seen && stream.header_too_large()) {
        RefuseEndlessLine(stream);
      }
      if (!answered || last || closed || !connection.header_seen || connection.refusal) break;
    }
    stream.LingerAndEnd();
    current_connection = nullptr;
    close(sock);
    return true;
  }

  const HttpServerOptions options_;
  RestApi& api_;
  const int wake_;
};

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Removes a socket file that nobody listens on any more; refuses anything else that stands there.
absl::Status ClearSocketPath(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "listen on " + path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("cannot listen on {}: a file that is no socket stands there", path));
  }
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = UnixAddress(path);
  const bool alive =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  if (alive) {
    return absl::FailedPreconditionError(fmt::format(
        "cannot listen on {}: another process serves there; stop it or choose another path", path));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

// httplib does not tell why it could not bind, so this tries first.
absl::Status ProbeTcp(const ListenAddress& listen) {
  const bool v6 = listen.host.find(':') != std::string::npos;
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  if (v6) {
    auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(listen.port);
    inet_pton(AF_INET6, listen.host.c_str(), &address->sin6_addr);
    bytes = sizeof *address;
  } else {
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(listen.port);
    inet_pton(AF_INET, listen.host.c_str(), &address->sin_addr);
    bytes = sizeof *address;
  }
  const int probe = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int bound = bind(probe, reinterpret_cast<const sockaddr*>(&storage), bytes);
  const int error = bound == 0 ? 0 : errno;
  close(probe);
  if (error == EADDRINUSE) {
    return absl::FailedPreconditionError(
        fmt::format("cannot listen on {}:{}: the port is taken; stop the process that has it or "
                    "choose another with --listen",
                    listen.host, listen.port));
  }
  if (error != 0)
    return ErrnoStatus(error, fmt::format("listen on {}:{}", listen.host, listen.port));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckListenAddressIsFree(const ListenAddress& address) {
  return address.is_unix() ? ClearSocketPath(address.socket_path) : ProbeTcp(address);
}

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, RestApi& api)
      : wake_(eventfd(0, EFD_CLOEXEC)), address_(options.address), server_(options, api, wake_) {}

  ~Impl() {
    Stop();
    close(wake_);
  }

  absl::Status Bind() {
    EBB_RETURN_IF_ERROR(CheckListenAddressIsFree(address_));
    if (address_.is_unix()) {
      server_.set_address_family(AF_UNIX);
      if (!server_.bind_to_port(address_.socket_path, 80)) {
        return absl::FailedPreconditionError(
            fmt::format("cannot listen on {}: the socket cannot be made there; does its folder "
                        "exist and may this user write to it?",
                        address_.socket_path));
      }
      bound_ = true;
      if (chmod(address_.socket_path.c_str(), kSocketMode) != 0) {
        return ErrnoStatus(errno, "chmod " + address_.socket_path);
      }
    } else {
      if (address_.port == 0) {
        const int port = server_.bind_to_any_port(address_.host);
        if (port <= 0) return absl::UnavailableError("no free port on " + address_.host);
        address_.port = static_cast<uint16_t>(port);
      } else if (!server_.bind_to_port(address_.host, address_.port)) {
        return absl::FailedPreconditionError(
            fmt::format("cannot listen on {}:{}", address_.host, address_.port));
      }
    }
    server_.WidenBacklog();
    return absl::OkStatus();
  }

  void Serve() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // httplib forgets a stop that comes before its loop runs.
    while (!server_.is_running()) std::this_thread::yield();
  }

  void Stop() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    if (write(wake_, &one, sizeof one) != sizeof one) return;
    server_.stop();
    thread_.join();
    if (bound_) unlink(address_.socket_path.c_str());
  }

  const ListenAddress& address() const { return address_; }

 private:
  const int wake_;
  ListenAddress address_;
  Server server_;
  bool bound_ = false;
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              RestApi& api) {
  auto impl = std::make_unique<Impl>(options, api);
  EBB_RETURN_IF_ERROR(impl->Bind());
  impl->Serve();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

void HttpServer::Stop() { impl_->Stop(); }
const ListenAddress& HttpServer::address() const { return impl_->address(); }

}  // namespace ebb::rest
