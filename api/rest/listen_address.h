// ListenAddress: where the REST interface may be served.
//
// There is no TLS and there are no tokens yet, so only addresses that the same host alone can reach
// are legal: loopback and unix sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ebb::rest {

struct ListenAddress {
  std::string socket_path;  // empty: TCP
  std::string host;         // a numeric loopback address
  uint16_t port = 0;        // 0: any free one

  bool is_unix() const { return !socket_path.empty(); }
  // "http://127.0.0.1:8377", or "unix:/run/ebb/api.sock".
  std::string Url() const;
};

// "127.0.0.1:8377", "[::1]:8377", "localhost:8377" or "unix:/absolute/path".
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

}  // namespace ebb::rest
