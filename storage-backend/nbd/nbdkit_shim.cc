// Preloaded into nbdkit (LD_PRELOAD): what nbdkit 1.32 does with its sockets and locks, mended.
//
// A client that dies with replies unread must not end the node. nbdkit aborts then
// (`raw_send_socket: Assertion sock >= 0`, mended in 1.33): the worker whose reply fails marks the
// connection's socket as gone while other workers stand behind it with replies of their own.
//
//   send      to a client that is gone succeeds. Its bytes go nowhere; the workers finish one after
//             the other, and the one that reads next sees the end of the connection.
//   shutdown  of the sending side waits a moment. Where reading finds the client gone, nbdkit marks
//             the socket right after this call; by then the workers that were about to answer are
//             done: none of their sends can block any more.
//
// A connection with TLS is not helped: its bytes do not pass through here with their meaning.
//
// A hit costs two thirds of its time in nbdkit and the kernel (docs/adr/0004-nbd-front-end.md):
//
//   send      Replies leave together where that delays nobody: nbdkit_replies.h.
//   locks     How nbdkit's workers hand the connection on: nbdkit_turn.h.
#include <cstddef>
#include <ctime>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage-backend/nbd/nbdkit_replies.h"

extern "C" {

__attribute__((visibility("default"))) ssize_t send(int fd, const void* data, size_t bytes,
                                                    int flags) {
  return ebb::storage::SendOrHold(fd, data, bytes, flags);
}

__attribute__((visibility("default"))) int shutdown(int fd, int how) noexcept {
  constexpr timespec kMoment = {0, 100'000'000};
  if (how == SHUT_WR) nanosleep(&kMoment, nullptr);
  return static_cast<int>(syscall(SYS_shutdown, fd, how));
}
}
