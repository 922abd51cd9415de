#include "storage-backend/nbd/nbdkit_replies.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storage-backend/nbd/nbdkit_turn.h"

namespace ebb::storage {
namespace {

// NBD's simple reply: magic, error, handle. Only that of a read that went well is sent with
// MSG_MORE, and its data always follows.
constexpr size_t kReplyBytes = 16;
constexpr unsigned char kReplyMagic[] = {0x67, 0x44, 0x66, 0x98};

// Half of what a client keeps under way: it works on these while we work on its others.
constexpr size_t kRepliesMax = 8;
constexpr size_t kHeldBytesMax = 64 << 10;
// Larger data leaves at once, without a copy, behind what is held.
constexpr size_t kCopiedBytesMax = 8 << 10;

struct Outbox {
  unsigned char* bytes;  // kHeldBytesMax; null until the first reply
  size_t size;
  size_t replies;         // whole ones
  pthread_mutex_t* lock;  // held by the worker whenever it sends
  int fd;
  bool awaits_data;  // the last 16 bytes are a read's reply without its data
  bool is_sending;
};
thread_local Outbox outbox __attribute__((tls_model("initial-exec")));

bool IsReply(const void* data, size_t bytes) {
  return bytes == kReplyBytes && std::memcmp(data, kReplyMagic, sizeof kReplyMagic) == 0;
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
  GiveUpTurn();
  return call(flags);
}

// What is held, whole, then as much of `data` as one call takes.
ssize_t SendBehindHeld(int fd, const void* data, size_t bytes, int flags) {
  const size_t held = std::exchange(outbox.size, 0);
  outbox.replies = 0;
  outbox.awaits_data = false;
  outbox.is_sending = true;
  ssize_t result = -1;
  for (size_t done = 0;;) {
    iovec parts[] = {{outbox.bytes + done, held - done}, {const_cast<void*>(data), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = bytes > 0 ? 2 : 1;
    const ssize_t sent = SendKeepingTurn(
        fd, flags, [&](int how) { return syscall(SYS_sendmsg, fd, &message, how); });
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      result = ClientIsGone() ? static_cast<ssize_t>(bytes) : -1;
      break;
    }
    done += static_cast<size_t>(sent);
    // No data yet would read as the end of the connection: go on until there is some.
    if (done > held || (done == held && bytes == 0)) {
      result = static_cast<ssize_t>(done - held);
      break;
    }
  }
  outbox.is_sending = false;
  return result;
}

// The lock to send a reply under that waits for the next request; null when it may not wait: only a
// worker that receives that request itself knows when.
pthread_mutex_t* LockToWaitWith() {
  return outbox.replies < kRepliesMax && HasTurn() ? InnermostLock() : nullptr;
}

bool Append(int fd, const void* data, size_t bytes) {
  if (outbox.size + bytes > kHeldBytesMax) return false;
  if (outbox.bytes == nullptr) {
    outbox.bytes = static_cast<unsigned char*>(std::malloc(kHeldBytesMax));
    if (outbox.bytes == nullptr) return false;
  }
  std::memcpy(outbox.bytes + outbox.size, data, bytes);
  outbox.size += bytes;
  outbox.fd = fd;
  return true;
}

}  // namespace

ssize_t SendOrHold(int fd, const void* data, size_t bytes, int flags) {
  const bool is_ours = outbox.size > 0 && outbox.fd == fd;
  if (outbox.size == 0 || is_ours) {
    const bool begins = !outbox.awaits_data && IsReply(data, bytes);
    if (begins && (flags & MSG_MORE) != 0 && Append(fd, data, bytes)) {
      outbox.awaits_data = true;
      return static_cast<ssize_t>(bytes);
    }
    const bool ends = (begins || outbox.awaits_data) && bytes <= kCopiedBytesMax;
    pthread_mutex_t* const lock = ends ? LockToWaitWith() : nullptr;
    if (lock != nullptr && Append(fd, data, bytes)) {
      outbox.lock = lock;
      outbox.awaits_data = false;
      ++outbox.replies;
      return static_cast<ssize_t>(bytes);
    }
  }
  if (is_ours && bytes > 0) return SendBehindHeld(fd, data, bytes, flags);
  const ssize_t sent = SendKeepingTurn(
      fd, flags, [&](int how) { return syscall(SYS_sendto, fd, data, bytes, how, nullptr, 0); });
  if (sent < 0 && ClientIsGone()) return static_cast<ssize_t>(bytes);
  return sent;
}

bool HoldsReplies(int fd) {
  return outbox.size > 0 && outbox.fd == fd && !outbox.awaits_data && !outbox.is_sending;
}

void SendHeldReplies() {
  if (!HoldsReplies(outbox.fd)) return;
  LockUnseen(outbox.lock);
  const ssize_t sent = SendBehindHeld(outbox.fd, nullptr, 0, MSG_NOSIGNAL);
  // nbdkit takes these replies for sent. Where they are not, the connection must not look alive.
  if (sent < 0) syscall(SYS_shutdown, outbox.fd, SHUT_RDWR);
  UnlockUnseen(outbox.lock);
}

void DropReplies() {
  std::free(outbox.bytes);
  outbox.bytes = nullptr;
  outbox.size = 0;
}

}  // namespace ebb::storage
