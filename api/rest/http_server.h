// HttpServer serves a RestApi over HTTP/1.1 on a loopback address or a unix socket.
//
// It wraps cpp-httplib 0.11.4 and closes what that version leaves open: header bytes, body bytes
// and the time a request may take to arrive are bounded before anything is parsed; chunked and
// compressed bodies, ranges, and bodies where none belongs are refused; requests that a web page of
// another origin made the browser send are refused; no exception text leaves the process. Threads
// are its own; Stop ends idle connections at once and lets running requests finish.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/rest/listen_address.h"
#include "api/rest/rest_api.h"

namespace ebb::rest {

struct HttpServerOptions {
  ListenAddress address;
  size_t threads = 32;  // connections served at one time; more wait
  size_t header_bytes_max = size_t{32} * 1024;
  size_t target_bytes_max = size_t{2} * 1024;
  size_t body_bytes_max = size_t{64} * 1024;
  int request_ms_max = 10'000;  // from its first byte until all of it has arrived
  int idle_ms_max = 5'000;      // between requests of one connection
  size_t requests_per_connection_max = 1'000;
};

// FailedPrecondition when another process serves there; tells without disturbing it.
absl::Status CheckListenAddressIsFree(const ListenAddress& address);

class HttpServer {
 public:
  // Listens and serves; FailedPrecondition when the address is taken, with what to do about it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           RestApi& api);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void Stop();
  // With the port that was really bound.
  const ListenAddress& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::rest
