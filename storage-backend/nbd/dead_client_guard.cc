// Preloaded into nbdkit (LD_PRELOAD): a client that dies with replies unread must not end the node.
//
// nbdkit 1.32 aborts then (`raw_send_socket: Assertion sock >= 0`, mended in 1.33): the worker
// whose reply fails marks the connection's socket as gone while other workers stand behind it with
// replies of their own. Two calls are changed, nothing else:
//
//   send      to a client that is gone succeeds. Its bytes go nowhere; the workers finish one after
//             the other, and the one that reads next sees the end of the connection.
//   shutdown  of the sending side waits a moment. Where reading finds the client gone, nbdkit marks
//             the socket right after this call; by then the workers that were about to answer are
//             done: none of their sends can block any more.
//
// A connection with TLS is not helped: its bytes do not pass through here with their meaning.
#include <cerrno>
#include <cstddef>
#include <ctime>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

__attribute__((visibility("default"))) ssize_t send(int fd, const void* data, size_t bytes,
                                                    int flags) {
  const ssize_t sent = syscall(SYS_sendto, fd, data, bytes, flags, nullptr, 0);
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return static_cast<ssize_t>(bytes);
  return sent;
}

__attribute__((visibility("default"))) int shutdown(int fd, int how) noexcept {
  constexpr timespec kMoment = {0, 100'000'000};
  if (how == SHUT_WR) nanosleep(&kMoment, nullptr);
  return static_cast<int>(syscall(SYS_shutdown, fd, how));
}
}
