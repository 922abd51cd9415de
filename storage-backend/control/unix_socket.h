// Unix stream sockets for the control endpoint: private from the first moment, one owner a path.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/control/scoped_fd.h"

namespace ebb::storage {

// A listening socket (mode 0600 since its creation) with the lock file `path`.lock that keeps a
// second process off. Removes the socket when it goes; the lock file stays, because removing a
// locked file would let two processes each hold "the" lock.
class UnixListener {
 public:
  // A socket file that a dead process left is replaced. FailedPrecondition when a live process
  // listens there or when `path` is something else than a socket.
  static absl::StatusOr<UnixListener> Open(const std::string& path);
  ~UnixListener();
  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&&) noexcept = default;

  int fd() const { return socket_.get(); }

 private:
  UnixListener(std::string path, ScopedFd lock, ScopedFd socket)
      : path_(std::move(path)), lock_(std::move(lock)), socket_(std::move(socket)) {}

  std::string path_;
  ScopedFd lock_;
  ScopedFd socket_;
};

// A connected socket. Unavailable "no node listens at X: is it started?" when nothing listens
// there; PermissionDenied when it belongs to someone else.
absl::StatusOr<ScopedFd> ConnectUnix(const std::string& path);

// The user of the process at the other end of `fd`.
absl::StatusOr<uint32_t> PeerUid(int fd);

}  // namespace ebb::storage
