#include "api/rest/peer_identity.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>

#include "fmt/format.h"

namespace ebb::rest {
namespace {

// "0100007F:20B9" of an address, as /proc/net/tcp and tcp6 print it: each 32-bit word as it lies in
// memory, read as a host number.
std::string TableForm(const sockaddr_storage& storage) {
  std::string text;
  uint16_t port = 0;
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof v4);
    text = fmt::format("{:08X}", v4.sin_addr.s_addr);
    port = ntohs(v4.sin_port);
  } else {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof v6);
    std::array<uint32_t, 4> words{};
    std::memcpy(words.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    for (const uint32_t word : words) text += fmt::format("{:08X}", word);
    port = ntohs(v6.sin6_port);
  }
  return text + fmt::format(":{:04X}", port);
}

// The owner of the socket whose own address is `local` and whose peer is `remote`.
std::optional<uid_t> OwnerInTable(const char* table, const std::string& local,
                                  const std::string& remote) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // column titles
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, line_local, line_remote, state, queues, timer, retransmits;
    uid_t uid = 0;
    if (fields >> slot >> line_local >> line_remote >> state >> queues >> timer >> retransmits >>
            uid &&
        line_local == local && line_remote == remote) {
      return uid;
    }
  }
  return std::nullopt;
}

std::optional<uid_t> PeerUid(int socket) {
  sockaddr_storage own{};
  socklen_t own_bytes = sizeof own;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0) return std::nullopt;
  if (own.ss_family == AF_UNIX) {
    ucred credentials{};
    socklen_t bytes = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
      return std::nullopt;
    }
    return credentials.uid;
  }
  sockaddr_storage peer{};
  socklen_t peer_bytes = sizeof peer;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) {
    return std::nullopt;
  }
  const char* table = own.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6";
  return OwnerInTable(table, TableForm(peer), TableForm(own));
}

}  // namespace

std::string PeerActor(int socket) {
  const std::optional<uid_t> uid = PeerUid(socket);
  if (!uid) return "operator";
  std::vector<char> buffer(16'384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(*uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return fmt::format("operator:{}", entry.pw_name);
  }
  return fmt::format("operator:uid-{}", *uid);
}

}  // namespace ebb::rest
