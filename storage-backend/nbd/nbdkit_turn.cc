#include "storage-backend/nbd/nbdkit_turn.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage-backend/nbd/nbdkit_replies.h"

namespace ebb::storage {
namespace {

constexpr size_t kRequestBytes = 28;
constexpr unsigned char kRequestMagic[] = {0x25, 0x60, 0x95, 0x13};
constexpr size_t kRequestTypeAt = 7;  // the low byte
constexpr unsigned char kDisconnect = 2;

// libc's own function behind one of ours. Locks are taken before our constructors run, so it is
// found at its first use; two threads that do so at once find the same.
template <typename Function>
struct Libc {
  const char* name;
  Function found;

  Function get() {
    if (found == nullptr) found = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    return found;
  }
};
using OnMutex = int (*)(pthread_mutex_t*);
using InitMutex = int (*)(pthread_mutex_t*, const pthread_mutexattr_t*);
using ReadBytes = ssize_t (*)(int, void*, size_t);
constinit Libc<OnMutex> libc_lock = {"pthread_mutex_lock", nullptr};
constinit Libc<OnMutex> libc_unlock = {"pthread_mutex_unlock", nullptr};
constinit Libc<OnMutex> libc_destroy = {"pthread_mutex_destroy", nullptr};
constinit Libc<InitMutex> libc_init = {"pthread_mutex_init", nullptr};
constinit Libc<ReadBytes> libc_read = {"read", nullptr};

// The locks of a thread, and its turn.
struct Locks {
  static constexpr size_t kHeldMax = 8;
  std::array<pthread_mutex_t*, kHeldMax> held;  // innermost last; deeper ones are not noted
  size_t held_count;
  pthread_mutex_t* receiving;  // held, and a request came in under it
  pthread_mutex_t* kept;       // given up by nbdkit, not by us
  bool watched;                // the thread's end gives `kept` up
};
thread_local Locks locks __attribute__((tls_model("initial-exec")));

void Push(pthread_mutex_t* mutex) {
  if (locks.held_count < Locks::kHeldMax) locks.held[locks.held_count] = mutex;
  ++locks.held_count;
}

void Pop(pthread_mutex_t* mutex) {
  const size_t noted = std::min(locks.held_count, Locks::kHeldMax);
  for (size_t i = noted; i > 0; --i) {
    if (locks.held[i - 1] != mutex) continue;
    std::copy(locks.held.begin() + i, locks.held.begin() + noted, locks.held.begin() + i - 1);
    --locks.held_count;
    return;
  }
  // One that was not noted: too deep, or taken by other means.
  if (locks.held_count > Locks::kHeldMax) --locks.held_count;
}

pthread_key_t AtThreadEnd() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void*) {
      GiveUpTurn();
      DropReplies();
    });
    return made;
  }();
  return key;
}

void Keep(pthread_mutex_t* mutex) {
  if (!locks.watched) {
    locks.watched = true;
    pthread_setspecific(AtThreadEnd(), &locks);
  }
  locks.kept = mutex;
}

// Before the thread waits for its client, or leaves it, the client gets what we hold.
ssize_t ReadAfterReplies(int fd, void* data, size_t bytes) {
  if (!HoldsReplies(fd)) return libc_read.get()(fd, data, bytes);
  const ssize_t got = recv(fd, data, bytes, MSG_DONTWAIT);
  if (got > 0) return got;
  SendHeldReplies();
  return got == 0 ? 0 : libc_read.get()(fd, data, bytes);
}

}  // namespace

void GiveUpTurn() {
  if (locks.kept == nullptr) return;
  SendHeldReplies();  // to a client that does not read it gives the turn up itself
  pthread_mutex_t* const kept = std::exchange(locks.kept, nullptr);
  if (kept != nullptr) libc_unlock.get()(kept);
}

bool HasTurn() { return locks.kept != nullptr; }

pthread_mutex_t* InnermostLock() {
  if (locks.held_count == 0 || locks.held_count > Locks::kHeldMax) return nullptr;
  return locks.held[locks.held_count - 1];
}

void LockUnseen(pthread_mutex_t* mutex) { libc_lock.get()(mutex); }
void UnlockUnseen(pthread_mutex_t* mutex) { libc_unlock.get()(mutex); }

extern "C" {

__attribute__((visibility("default"))) void ebb_nbdkit_may_block() { GiveUpTurn(); }

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (mutex == locks.kept) {
    locks.kept = nullptr;
    Push(mutex);
    return 0;
  }
  const int result = libc_lock.get()(mutex);
  if (result == 0) Push(mutex);
  return result;
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  Pop(mutex);
  if (mutex == locks.receiving) {
    locks.receiving = nullptr;
    Keep(mutex);
    return 0;
  }
  return libc_unlock.get()(mutex);
}

__attribute__((visibility("default"))) int pthread_mutex_destroy(pthread_mutex_t* mutex) noexcept {
  if (mutex == locks.kept) GiveUpTurn();
  return libc_destroy.get()(mutex);
}

__attribute__((visibility("default"))) int pthread_mutex_init(
    pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) noexcept {
  if (attributes != nullptr) return libc_init.get()(mutex, attributes);
  // Spins for a moment before it sleeps: workers hold a connection's locks for about a microsecond.
  pthread_mutexattr_t adaptive;
  pthread_mutexattr_init(&adaptive);
  pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
  const int result = libc_init.get()(mutex, &adaptive);
  pthread_mutexattr_destroy(&adaptive);
  return result;
}

__attribute__((visibility("default"))) ssize_t read(int fd, void* data, size_t bytes) {
  const ssize_t got = ReadAfterReplies(fd, data, bytes);
  if (bytes == kRequestBytes && got == static_cast<ssize_t>(bytes) &&
      std::memcmp(data, kRequestMagic, sizeof kRequestMagic) == 0) {
    // nbdkit ends the connection without another look at it.
    if (static_cast<const unsigned char*>(data)[kRequestTypeAt] == kDisconnect) SendHeldReplies();
    locks.receiving = InnermostLock();
  }
  return got;
}
}

}  // namespace ebb::storage
