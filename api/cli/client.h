// Client speaks REST to the daemon and turns every failure into one sentence.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::cli {

class Client {
 public:
  // `url`: "http://127.0.0.1:8377" or "unix:/run/ebb/api.sock". When empty: the environment's
  // EBB_URL, else /run/ebb/api.sock when a socket is there, else http://127.0.0.1:8377. Connects
  // only when called.
  static absl::StatusOr<std::unique_ptr<Client>> Open(const std::string& url);
  ~Client();

  // The body of a 2xx answer. `body` empty: none is sent. Unavailable: nothing answers there;
  // FailedPrecondition, Aborted, PermissionDenied: refused; NotFound or Unknown: other problems,
  // every fault of the answer in one sentence.
  absl::StatusOr<std::string> Call(const std::string& method, const std::string& target,
                                   const std::string& body = "");

  const std::string& url() const { return url_; }

 private:
  class Impl;
  Client(std::string url, std::unique_ptr<Impl> impl);
  std::string url_;
  std::unique_ptr<Impl> impl_;
};

// Percent-encodes everything but letters, digits and "-._~".
std::string Encode(std::string_view text);

// The node to act on: `given`, or the only attached one; a failure lists what there is.
absl::StatusOr<std::string> ResolveNode(Client& client, const std::string& given);

}  // namespace ebb::cli
