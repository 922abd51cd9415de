#include "api/rest/listen_address.h"

#include <charconv>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "fmt/format.h"

namespace ebb::rest {
namespace {

constexpr size_t kSocketPathBytesMax = 107;  // what the kernel's sun_path holds

// Whether `host` is a numeric address, and if so whether only this host reaches it.
std::optional<bool> IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  return std::nullopt;
}

absl::StatusOr<ListenAddress> ParseUnix(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kSocketPathBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("listen address 'unix:{}': the path must be absolute and at most {} bytes long",
                    path, kSocketPathBytesMax));
  }
  ListenAddress address;
  address.socket_path = std::string(path);
  return address;
}

}  // namespace

std::string ListenAddress::Url() const {
  if (is_unix()) return "unix:" + socket_path;
  if (host.find(':') != std::string::npos) return fmt::format("http://[{}]:{}", host, port);
  return fmt::format("http://{}:{}", host, port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  if (text.starts_with("unix:")) return ParseUnix(text.substr(5));
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  bool good = colon != text.npos;
  if (good) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    good = error == std::errc() && end == digits.data() + digits.size();
  }
  std::string host(text.substr(0, good ? colon : 0));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") host = "127.0.0.1";
  const std::optional<bool> loopback = IsLoopback(host);
  if (!good || !loopback) {
    return absl::InvalidArgumentError(fmt::format(
        "listen address '{}' is none: write 127.0.0.1:8377, [::1]:8377 or unix:/run/ebb/api.sock",
        text));
  }
  if (!*loopback) {
    return absl::InvalidArgumentError(
        fmt::format("refusing to listen on '{}': other hosts could change the node, for this "
                    "version has neither TLS nor tokens; use a loopback address such as "
                    "127.0.0.1:8377, or unix:/run/ebb/api.sock",
                    text));
  }
  ListenAddress address;
  address.host = host;
  address.port = port;
  return address;
}

}  // namespace ebb::rest
