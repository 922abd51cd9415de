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
//   send      The 16 bytes in front of the data that a read returns wait for that data, which the
//             same thread sends next: one system call and one wake-up of the client, not two.
// And where nbdkit's workers hand the connection on: nbdkit_turn.h.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storage-backend/nbd/nbdkit_turn.h"

namespace {

// NBD's simple reply: magic, error, handle. Only that of a read that went well is sent with
// MSG_MORE, and its data always follows.
constexpr size_t kReplyBytes = 16;
constexpr unsigned char kReplyMagic[] = {0x67, 0x44, 0x66, 0x98};

struct HeldReply {
  int fd = -1;  // -1: none
  unsigned char bytes[kReplyBytes] = {};
};
thread_local HeldReply held __attribute__((tls_model("initial-exec")));

bool IsReadReply(const void* data, size_t bytes, int flags) {
  return bytes == kReplyBytes && (flags & MSG_MORE) != 0 &&
         std::memcmp(data, kReplyMagic, sizeof kReplyMagic) == 0;
}

bool ClientIsGone() { return errno == EPIPE || errno == ECONNRESET; }

// `call(flags)`, a kind of send on `fd`. A client that is slower than we are is waited for with the
// turn in hand, as its next request would only wait behind this reply; but one that does not read
// before its requests are taken must not wait for us for ever.
template <typename Call>
long SendKeepingTurn(int fd, int flags, const Call& call) {
  constexpr int kPatienceMs = 5;
  long sent = call(flags | MSG_DONTWAIT);
  const auto is_full = [&] { return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); };
  if (!is_full() || (flags & MSG_DONTWAIT) != 0) return sent;
  pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&room, 1, kPatienceMs) > 0) sent = call(flags | MSG_DONTWAIT);
  if (!is_full()) return sent;
  ebb::storage::GiveUpTurn();
  return call(flags);
}

// The held reply, whole, then as much of `data` as one call takes.
ssize_t SendBehindReply(int fd, const void* data, size_t bytes, int flags) {
  held.fd = -1;
  for (size_t done = 0;;) {
    iovec parts[] = {{held.bytes + done, kReplyBytes - done}, {const_cast<void*>(data), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = SendKeepingTurn(
        fd, flags, [&](int how) { return syscall(SYS_sendmsg, fd, &message, how); });
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return ClientIsGone() ? static_cast<ssize_t>(bytes) : -1;
    done += static_cast<size_t>(sent);
    // No data yet would read as the end of the connection: go on until there is some.
    if (done > kReplyBytes) return static_cast<ssize_t>(done - kReplyBytes);
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ssize_t send(int fd, const void* data, size_t bytes,
                                                    int flags) {
  if (held.fd == fd && bytes > 0) return SendBehindReply(fd, data, bytes, flags);
  if (IsReadReply(data, bytes, flags)) {
    held.fd = fd;
    std::memcpy(held.bytes, data, kReplyBytes);
    return kReplyBytes;
  }
  const ssize_t sent = SendKeepingTurn(
      fd, flags, [&](int how) { return syscall(SYS_sendto, fd, data, bytes, how, nullptr, 0); });
  if (sent < 0 && ClientIsGone()) return static_cast<ssize_t>(bytes);
  return sent;
}

__attribute__((visibility("default"))) int shutdown(int fd, int how) noexcept {
  constexpr timespec kMoment = {0, 100'000'000};
  if (how == SHUT_WR) nanosleep(&kMoment, nullptr);
  return static_cast<int>(syscall(SYS_shutdown, fd, how));
}
}
