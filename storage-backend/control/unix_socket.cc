#include "storage-backend/control/unix_socket.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr int kListenBacklog = 64;

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("the socket path must be 1 to {} bytes long, this one has {}: {}",
                    sizeof(address.sun_path) - 1, path.size(), path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int ConnectTo(int fd, const sockaddr_un& address) {
  int result = 0;
  do {
    result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

absl::StatusOr<ScopedFd> NewSocket() {
  ScopedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a socket");
  return fd;
}

absl::Status InUse(const std::string& path) {
  return absl::FailedPreconditionError(
      fmt::format("another node already listens at {}: stop it, or choose another socket", path));
}

// The path is ours by its lock, so a socket there is a dead process's, unless something that knows
// nothing of the lock listens.
absl::Status RemoveStaleSocket(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{} exists and is not a socket: it was left untouched", path));
  }
  EBB_ASSIGN_OR_RETURN(ScopedFd probe, NewSocket());
  if (ConnectTo(probe.get(), address) != ECONNREFUSED) return InUse(path);
  if (unlink(path.c_str()) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot remove the stale socket {}", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UnixListener> UnixListener::Open(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string lock_path = path + ".lock";
  ScopedFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, fmt::format("cannot open {}", lock_path));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? InUse(path) : ErrnoStatus(errno, lock_path);
  }
  EBB_RETURN_IF_ERROR(RemoveStaleSocket(path, address));

  EBB_ASSIGN_OR_RETURN(ScopedFd socket, NewSocket());
  // Linux gives the file the mode of the unbound socket (less the umask), so it is never wider.
  if (fchmod(socket.get(), 0600) != 0) return ErrnoStatus(errno, path);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot make the control socket {}", path));
  }
  UnixListener listener(path, std::move(lock), std::move(socket));
  if (chmod(path.c_str(), 0600) != 0) return ErrnoStatus(errno, path);
  if (listen(listener.fd(), kListenBacklog) != 0) return ErrnoStatus(errno, path);
  return listener;
}

UnixListener::~UnixListener() {
  if (socket_.valid()) unlink(path_.c_str());
}

absl::StatusOr<ScopedFd> ConnectUnix(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  EBB_ASSIGN_OR_RETURN(ScopedFd fd, NewSocket());
  switch (const int error_number = ConnectTo(fd.get(), address); error_number) {
    case 0:
      return fd;
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
      return absl::UnavailableError(fmt::format("no node listens at {}: is it started?", path));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(fmt::format(
          "{} belongs to another user: only the node's user and root may connect", path));
    default:
      return ErrnoStatus(error_number, fmt::format("cannot connect to {}", path));
  }
}

absl::StatusOr<uint32_t> PeerUid(int fd) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return ErrnoStatus(errno, "peer credentials");
  }
  return static_cast<uint32_t>(credentials.uid);
}

}  // namespace ebb::storage
