#include "storage-backend/control/json_rpc_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "absl/strings/cord.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/rpc.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;

constexpr const char* kCodePayload = "ebb/rpc-code";
constexpr const char* kDataPayload = "ebb/rpc-data";

absl::StatusCode StatusCodeOf(int rpc_code) {
  switch (rpc_code) {
    case kRpcParseError:
    case kRpcInvalidRequest:
    case kRpcBadParameters:
      return absl::StatusCode::kInvalidArgument;
    case kRpcUnknownMethod:
      return absl::StatusCode::kUnimplemented;
    case kRpcRefused:
      return absl::StatusCode::kFailedPrecondition;
    case kRpcStaleVersion:
      return absl::StatusCode::kAborted;
    case kRpcNoSuchLease:
      return absl::StatusCode::kNotFound;
    case kRpcForeignUser:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status StatusOfError(const Json& error) {
  const Json code = error.value("code", Json());
  const Json message = error.value("message", Json());
  if (!code.is_number_integer() || !message.is_string()) {
    return absl::InternalError("the node sent an error without code and message");
  }
  const int rpc_code = code.get<int>();
  absl::Status status(StatusCodeOf(rpc_code), message.get<std::string>());
  status.SetPayload(kCodePayload, absl::Cord(std::to_string(rpc_code)));
  if (error.contains("data")) status.SetPayload(kDataPayload, absl::Cord(error["data"].dump()));
  return status;
}

absl::StatusOr<std::string> ResultOf(const std::string& line, uint64_t id) {
  const Json reply = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return absl::InternalError("the node answered something that is no JSON");
  if (reply.contains("error")) {
    if (!reply["error"].is_object()) return absl::InternalError("the node sent a shapeless error");
    return StatusOfError(reply["error"]);
  }
  if (reply.value("id", Json()) != Json(id) || !reply.contains("result")) {
    return absl::InternalError("the node answered another request than this one");
  }
  return reply["result"].dump();
}

}  // namespace

JsonRpcClient::JsonRpcClient(std::string socket_path, uint64_t timeout_ns)
    : socket_path_(std::move(socket_path)), timeout_ns_(timeout_ns) {}

absl::StatusOr<std::string> JsonRpcClient::Call(std::string_view method,
                                                std::string_view params_json) {
  if (params_json.find('\n') != std::string_view::npos) {
    return absl::InvalidArgumentError("parameters must be JSON text on one line");
  }
  const std::lock_guard lock(mutex_);
  const uint64_t deadline_ns = RealClock().MonotonicNs() + timeout_ns_;
  EBB_RETURN_IF_ERROR(Connect());
  const uint64_t id = next_id_++;
  const std::string line = fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":{},"params":{}}})"
                                       "\n",
                                       id, Json(std::string(method)).dump(), params_json);
  absl::Status sent = Send(line, deadline_ns, method);
  // Even when the node hung up while we wrote: it may have said why first.
  absl::StatusOr<std::string> reply = absl::IsDeadlineExceeded(sent)
                                          ? absl::StatusOr<std::string>(sent)
                                          : ReceiveLine(deadline_ns, method);
  if (!reply.ok()) {
    socket_.Reset();
    return std::move(reply).status();
  }
  try {
    return ResultOf(*reply, id);
  } catch (const Json::exception& fault) {
    socket_.Reset();
    return absl::InternalError(fmt::format("the node broke the protocol: {}", fault.what()));
  }
}

absl::Status JsonRpcClient::Connect() {
  if (socket_.valid()) {
    // Between calls nothing may arrive: an end of file or stray bytes mean this connection is over.
    std::array<char, 1> byte{};
    const ssize_t seen = recv(socket_.get(), byte.data(), 1, MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::OkStatus();
    socket_.Reset();
  }
  EBB_ASSIGN_OR_RETURN(socket_, ConnectUnix(socket_path_));
  return absl::OkStatus();
}

absl::Status JsonRpcClient::WaitFor(short events, uint64_t deadline_ns, std::string_view method) {
  while (true) {
    const uint64_t now_ns = RealClock().MonotonicNs();
    if (now_ns >= deadline_ns) {
      return absl::DeadlineExceededError(fmt::format("the node at {} did not answer {} within {}",
                                                     socket_path_, method,
                                                     FormatDurationNs(timeout_ns_)));
    }
    pollfd waiting{socket_.get(), events, 0};
    const auto wait_ms = static_cast<int>(
        std::min<uint64_t>((deadline_ns - now_ns) / kNsPerMs + 1, uint64_t{3'600'000}));
    if (poll(&waiting, 1, wait_ms) > 0) return absl::OkStatus();
  }
}

absl::Status JsonRpcClient::WentAway(std::string_view method) {
  return absl::UnavailableError(
      fmt::format("the node at {} went away during {}", socket_path_, method));
}

absl::Status JsonRpcClient::Send(const std::string& line, uint64_t deadline_ns,
                                 std::string_view method) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t sent =
        send(socket_.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      EBB_RETURN_IF_ERROR(WaitFor(POLLOUT, deadline_ns, method));
    } else if (errno != EINTR) {
      return WentAway(method);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonRpcClient::ReceiveLine(uint64_t deadline_ns,
                                                       std::string_view method) {
  std::string line;
  std::array<char, 65536> chunk;
  while (line.size() <= kRpcReplyBytesMax) {
    EBB_RETURN_IF_ERROR(WaitFor(POLLIN, deadline_ns, method));
    const ssize_t got = recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return WentAway(method);
    line.append(chunk.data(), static_cast<size_t>(got));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
  return absl::InternalError("the node's answer is longer than the protocol allows");
}

std::optional<int> RpcErrorCode(const absl::Status& status) {
  const auto payload = status.GetPayload(kCodePayload);
  if (!payload) return std::nullopt;
  return std::stoi(std::string(*payload));
}

std::string RpcErrorData(const absl::Status& status) {
  const auto payload = status.GetPayload(kDataPayload);
  return payload ? std::string(*payload) : "";
}

}  // namespace ebb::storage
