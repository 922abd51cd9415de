#include "tests/api/rest/rest_fixture.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ebb::rest {

std::string RestFixture::Exchange(const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_->address().port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // the server has had enough
    sent += static_cast<size_t>(n);
  }
  std::string received;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    received.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return received;
}

}  // namespace ebb::rest
