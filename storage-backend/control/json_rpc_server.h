// JsonRpcServer answers JSON-RPC 2.0 requests on a unix socket (PROTOCOL.md), from one thread.
//
// Methods run on that thread, one after the other, in the order in which requests arrive, so they
// must be quick. Nothing a client does can hold up another: input and output of each are bounded,
// and a client that does not read its answers gets no further ones, then is cut off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "storage-backend/control/rpc.h"
#include "storage-backend/control/unix_socket.h"

namespace ebb::storage {

// Gets the parameters as the text of one JSON object ("{}" when there were none).
using RpcMethod = std::function<RpcReply(const std::string& params_json)>;

struct JsonRpcServerOptions {
  std::string socket_path;
  size_t clients_max = 64;
  // Answers waiting for one client beyond which it gets no further ones.
  size_t output_bytes_max = size_t{4} << 20;
  // A client that takes none of its waiting output for this long is cut off.
  uint64_t stall_ns_max = 30 * kNsPerS;
};

class JsonRpcServer {
 public:
  // Listens and serves at once. `methods` by name.
  static absl::StatusOr<std::unique_ptr<JsonRpcServer>> Start(
      JsonRpcServerOptions options, std::map<std::string, RpcMethod, std::less<>> methods);
  // Stops after the method that runs now; answers already made are given 1 s to leave.
  ~JsonRpcServer();

 private:
  struct Client;

  JsonRpcServer(JsonRpcServerOptions options, std::map<std::string, RpcMethod, std::less<>> methods,
                UnixListener listener, ScopedFd wake);

  void Run();
  void Accept();
  // Each returns false when the connection is over.
  bool Receive(Client& client);
  bool AnswerLines(Client& client);
  bool SendPending(Client& client);
  void FlushBeforeStop();
  std::string Answer(std::string_view line) const;

  const JsonRpcServerOptions options_;
  const std::map<std::string, RpcMethod, std::less<>> methods_;
  UnixListener listener_;
  ScopedFd wake_;  // an eventfd: readable once the destructor runs
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t accept_again_ns_ = 0;  // after the process ran out of descriptors
  std::thread thread_;
};

}  // namespace ebb::storage
