#include "storage-backend/control/json_rpc_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/suggest.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

// Handled at most this many bytes of one client before the others get their turn.
constexpr size_t kReadBytesPerTurn = size_t{256} << 10;
constexpr int kPollMs = 1000;
constexpr size_t kQuotedBytesMax = 200;
constexpr uint64_t kAcceptPauseNs = kNsPerS;

// A client's own text in a message to it: enough to recognise it.
std::string Quoted(std::string text) {
  if (text.size() > kQuotedBytesMax) text = text.substr(0, kQuotedBytesMax) + "...";
  return text;
}

std::string ErrorLine(const Json& id, int code, const std::string& message,
                      const std::string& data_json = "") {
  Json error = {{"code", code}, {"message", message}};
  if (!data_json.empty()) error["data"] = Json::parse(data_json, nullptr, false);
  const Json reply = {{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(error)}};
  return reply.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Depth of brackets outside of strings: known before the parser builds anything from the text.
bool NestedTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kRpcNestingMax) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// What is wrong with the frame of a request; empty when nothing is.
std::string FrameFault(const Json& request) {
  if (request.is_array()) return "batches are refused: send one request a line";
  if (!request.is_object()) return "a request is one JSON object a line";
  if (request.value("jsonrpc", Json()) != "2.0") return R"("jsonrpc" must be "2.0")";
  const auto id = request.find("id");
  if (id == request.end() || !(id->is_string() || id->is_number_integer())) {
    return R"("id" must be a string or an integer: every call here has an answer)";
  }
  if (!request.value("method", Json()).is_string()) return R"("method" must be a string)";
  return "";
}

}  // namespace

struct JsonRpcServer::Client {
  explicit Client(ScopedFd socket_fd) : socket(std::move(socket_fd)) {}

  size_t waiting_bytes() const { return output.size() - output_sent; }
  void Queue(std::string line) {
    if (waiting_bytes() == 0) stalled_since_ns = RealClock().MonotonicNs();
    output += line;
  }

  ScopedFd socket;
  std::string input;
  std::string output;
  size_t output_sent = 0;
  uint64_t stalled_since_ns = 0;  // meaningful while output waits
  bool closing = false;           // once the output has left
  bool input_over = false;        // the client will send no more
};

absl::StatusOr<std::unique_ptr<JsonRpcServer>> JsonRpcServer::Start(
    JsonRpcServerOptions options, std::map<std::string, RpcMethod, std::less<>> methods) {
  EBB_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Open(options.socket_path));
  if (fcntl(listener.fd(), F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, options.socket_path);
  }
  ScopedFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "eventfd");
  auto server = std::unique_ptr<JsonRpcServer>(new JsonRpcServer(
      std::move(options), std::move(methods), std::move(listener), std::move(wake)));
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

JsonRpcServer::JsonRpcServer(JsonRpcServerOptions options,
                             std::map<std::string, RpcMethod, std::less<>> methods,
                             UnixListener listener, ScopedFd wake)
    : options_(std::move(options)),
      methods_(std::move(methods)),
      listener_(std::move(listener)),
      wake_(std::move(wake)) {}

JsonRpcServer::~JsonRpcServer() {
  const uint64_t one = 1;
  EBB_CHECK(write(wake_.get(), &one, sizeof one) == sizeof one);  // a first write always fits
  if (thread_.joinable()) thread_.join();
}

void JsonRpcServer::Run() {
  while (true) {
    const bool may_accept = RealClock().MonotonicNs() >= accept_again_ns_;
    std::vector<pollfd> waiting = {
        {wake_.get(), POLLIN, 0}, {listener_.fd(), static_cast<short>(may_accept ? POLLIN : 0), 0}};
    for (const auto& client : clients_) {
      const bool may_ask = !client->closing && !client->input_over &&
                           client->waiting_bytes() < options_.output_bytes_max;
      waiting.push_back(
          {client->socket.get(),
           static_cast<short>((may_ask ? POLLIN : 0) | (client->waiting_bytes() > 0 ? POLLOUT : 0)),
           0});
    }
    if (poll(waiting.data(), waiting.size(), kPollMs) < 0) {
      EBB_CHECK(errno == EINTR || errno == ENOMEM);
      continue;
    }
    if (waiting[0].revents != 0) break;

    const uint64_t now_ns = RealClock().MonotonicNs();
    std::vector<std::unique_ptr<Client>> kept;
    for (size_t i = 0; i < clients_.size(); ++i) {
      Client& client = *clients_[i];
      const short events = waiting[i + 2].revents;
      bool alive = (events & (POLLERR | POLLNVAL)) == 0;
      if (alive && (events & POLLOUT) != 0) alive = SendPending(client) && AnswerLines(client);
      if (alive && (events & (POLLIN | POLLHUP)) != 0) alive = Receive(client);
      if (alive && client.waiting_bytes() > 0) {
        alive = now_ns < client.stalled_since_ns + options_.stall_ns_max;
      } else if (client.closing || client.input_over) {
        alive = false;
      }
      if (alive) kept.push_back(std::move(clients_[i]));
    }
    clients_ = std::move(kept);
    if (waiting[1].revents != 0) Accept();
  }
  FlushBeforeStop();
}

void JsonRpcServer::Accept() {
  ScopedFd socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    // Out of descriptors: the connection stays in the backlog, and asking at once again is a spin.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      accept_again_ns_ = RealClock().MonotonicNs() + kAcceptPauseNs;
    }
    return;
  }
  auto client = std::make_unique<Client>(std::move(socket));
  const absl::StatusOr<uint32_t> uid = PeerUid(client->socket.get());
  if (!uid.ok() || (*uid != geteuid() && *uid != 0)) {
    client->Queue(ErrorLine(nullptr, kRpcForeignUser,
                            "only the node's user and root may use its control socket"));
    client->closing = true;
  } else if (clients_.size() >= options_.clients_max) {
    client->Queue(ErrorLine(
        nullptr, kRpcRefused,
        fmt::format("{} clients are connected already: close one", options_.clients_max)));
    client->closing = true;
  }
  const bool alive = !client->closing || (SendPending(*client) && client->waiting_bytes() > 0);
  // The extra slots for clients that are being turned away are bounded too.
  if (alive && clients_.size() < 2 * options_.clients_max) clients_.push_back(std::move(client));
}

bool JsonRpcServer::Receive(Client& client) {
  std::array<char, 65536> chunk;
  size_t taken = 0;
  while (taken < kReadBytesPerTurn) {
    const ssize_t got = recv(client.socket.get(), chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got < 0) return false;
    if (got == 0) {
      client.input_over = true;
      break;
    }
    client.input.append(chunk.data(), static_cast<size_t>(got));
    taken += static_cast<size_t>(got);
  }
  return AnswerLines(client);
}

bool JsonRpcServer::AnswerLines(Client& client) {
  size_t begin = 0;
  bool lines_left = true;
  while (lines_left && !client.closing) {
    const size_t end = client.input.find('\n', begin);
    lines_left = end != std::string::npos;
    if ((lines_left ? end : client.input.size()) - begin > kRpcRequestBytesMax) {
      client.Queue(
          ErrorLine(nullptr, kRpcInvalidRequest,
                    fmt::format("a request line may have {} bytes at most", kRpcRequestBytesMax)));
      client.closing = true;
    } else if (lines_left) {
      client.Queue(Answer(std::string_view(client.input).substr(begin, end - begin)));
      begin = end + 1;
    }
    if (client.waiting_bytes() >= options_.output_bytes_max) {
      if (!SendPending(client)) return false;
      if (client.waiting_bytes() > 0) break;  // goes on when the client has taken some
    }
  }
  client.input.erase(0, begin);
  return SendPending(client);
}

bool JsonRpcServer::SendPending(Client& client) {
  while (client.waiting_bytes() > 0) {
    const ssize_t sent = send(client.socket.get(), client.output.data() + client.output_sent,
                              client.waiting_bytes(), MSG_NOSIGNAL);
    if (sent > 0) {
      client.output_sent += static_cast<size_t>(sent);
      client.stalled_since_ns = RealClock().MonotonicNs();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // A client that always lags a little never empties the buffer, so cut what has left.
      if (client.output_sent > options_.output_bytes_max / 4) {
        client.output.erase(0, client.output_sent);
        client.output_sent = 0;
      }
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  client.output.clear();
  client.output_sent = 0;
  return true;
}

void JsonRpcServer::FlushBeforeStop() {
  const uint64_t deadline_ns = RealClock().MonotonicNs() + kNsPerS;
  for (const auto& client : clients_) {
    while (SendPending(*client) && client->waiting_bytes() > 0 &&
           RealClock().MonotonicNs() < deadline_ns) {
      pollfd waiting{client->socket.get(), POLLOUT, 0};
      poll(&waiting, 1, 10);
    }
  }
  clients_.clear();
}

std::string JsonRpcServer::Answer(std::string_view line) const {
  if (NestedTooDeep(line)) {
    return ErrorLine(nullptr, kRpcParseError,
                     fmt::format("nested deeper than {} levels", kRpcNestingMax));
  }
  Json id = nullptr;
  try {
    const Json request = Json::parse(line.begin(), line.end());
    if (request.is_object() && request.contains("id") &&
        (request["id"].is_string() || request["id"].is_number_integer())) {
      id = request["id"];
    }
    if (const std::string fault = FrameFault(request); !fault.empty()) {
      return ErrorLine(id, kRpcInvalidRequest, fault);
    }
    const Json params = request.value("params", Json::object());
    if (!params.is_object()) {
      return ErrorLine(id, kRpcBadParameters, R"("params" must be an object of named parameters)");
    }
    const std::string name = request["method"];
    const auto method = methods_.find(name);
    if (method == methods_.end()) {
      std::vector<std::string_view> known;
      for (const auto& [known_name, unused] : methods_) known.push_back(known_name);
      return ErrorLine(
          id, kRpcUnknownMethod,
          fmt::format("there is no method {}{}", Quoted(name), DidYouMean(name, known)));
    }
    const RpcReply reply = method->second(params.dump());
    if (reply.code != 0) return ErrorLine(id, reply.code, reply.message, reply.data_json);
    return fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})"
                       "\n",
                       id.dump(), reply.result_json);
  } catch (const Json::parse_error& fault) {
    return ErrorLine(id, kRpcParseError, "this line is no JSON: " + Quoted(fault.what()));
  } catch (const std::exception& fault) {
    return ErrorLine(id, kRpcInternal, fault.what());
  }
}

}  // namespace ebb::storage
