// JsonRpcClient calls a node over its control socket, one call at a time.
//
// Parameters and results are JSON text: the caller brings its own codec. Keeps one connection and
// opens a new one when the node has closed it since the last call (a restart); a call that was cut
// off is never sent twice, because it may have been carried out. Thread-safe: calls wait for each
// other.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "storage-backend/control/unix_socket.h"

namespace ebb::storage {

class JsonRpcClient {
 public:
  // Does not connect yet: the first Call does. `timeout_ns` limits each Call as a whole.
  explicit JsonRpcClient(std::string socket_path, uint64_t timeout_ns = 5 * kNsPerS);

  // The result as JSON text. Errors with the node's own sentence:
  //   Unavailable        no node listens there, or it went away during the call
  //   DeadlineExceeded   it did not answer in time: whether it acted is unknown
  //   PermissionDenied   the socket belongs to another user
  //   InvalidArgument    bad parameters           Unimplemented   unknown method
  //   Aborted            stale version            NotFound        no such lease
  //   FailedPrecondition refused in this state    Internal        the node failed, or broke the
  //                                                               protocol
  absl::StatusOr<std::string> Call(std::string_view method, std::string_view params_json = "{}");

  const std::string& socket_path() const { return socket_path_; }

 private:
  absl::Status Connect();
  absl::Status Send(const std::string& line, uint64_t deadline_ns, std::string_view method);
  absl::StatusOr<std::string> ReceiveLine(uint64_t deadline_ns, std::string_view method);
  absl::Status WaitFor(short events, uint64_t deadline_ns, std::string_view method);
  absl::Status WentAway(std::string_view method);

  const std::string socket_path_;
  const uint64_t timeout_ns_;
  std::mutex mutex_;
  ScopedFd socket_;
  uint64_t next_id_ = 1;
};

// Of a Status that Call returned: the node's error code, and the error's data as JSON text (empty
// when there was none). nullopt when the error is not one that the node sent.
std::optional<int> RpcErrorCode(const absl::Status& status);
std::string RpcErrorData(const absl::Status& status);

}  // namespace ebb::storage
