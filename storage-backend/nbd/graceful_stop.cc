#include "storage-backend/nbd/graceful_stop.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/status.h"

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

namespace ebb::storage {
namespace {

constexpr int kSweepMs = 100;

std::atomic<int> signal_wake_fd = -1;  // NOLINT: all that a signal handler may read

void OnSignal(int) {
  const int error_number = errno;
  const uint64_t one = 1;
  // A full eventfd is readable already, so a failed write loses nothing.
  [[maybe_unused]] const ssize_t written = write(signal_wake_fd.load(), &one, sizeof one);
  errno = error_number;
}

// The file descriptors of this process.
std::vector<int> OpenFds() {
  std::vector<int> fds;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return fds;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (end != entry->d_name && *end == '\0') fds.push_back(static_cast<int>(fd));
  }
  closedir(folder);
  return fds;
}

// The address that the socket `fd` is bound to; empty when it is no bound socket.
std::string BoundAddress(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return "";
  if (bytes <= sizeof(sa_family_t)) return "";
  return {reinterpret_cast<const char*>(&address), bytes};
}

bool Listens(int fd) {
  int listens = 0;
  socklen_t bytes = sizeof listens;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens != 0;
}

// Where NBD clients connect to: what listened when the node was opened, before its control socket.
std::vector<std::string> nbd_addresses;  // NOLINT: written once, by Install

void EndReadingFromClients() {
  for (const int fd : OpenFds()) {
    const std::string address = BoundAddress(fd);
    if (address.empty() || Listens(fd)) continue;
    for (const std::string& nbd_address : nbd_addresses) {
      if (address == nbd_address) shutdown(fd, SHUT_RD);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GracefulStop>> GracefulStop::Install(
    std::function<Activity()> activity) {
  for (const int fd : OpenFds()) {
    if (Listens(fd)) nbd_addresses.push_back(BoundAddress(fd));
  }
  ScopedFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "eventfd");
  auto stop = std::unique_ptr<GracefulStop>(new GracefulStop(std::move(wake), std::move(activity)));
  signal_wake_fd = stop->wake_.get();
  stop->thread_ = std::thread([raw = stop.get()] { raw->Run(); });
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal_number : {SIGTERM, SIGINT}) {
    if (sigaction(signal_number, &action, nullptr) != 0) return ErrnoStatus(errno, "sigaction");
  }
  return stop;
}

GracefulStop::~GracefulStop() {
  ended_ = true;
  Begin();
  thread_.join();
  // A late signal finds nothing to stop.
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal_wake_fd = -1;
}

void GracefulStop::Begin() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_.get(), &one, sizeof one);
  EBB_CHECK(written == sizeof one || errno == EAGAIN);
}

void GracefulStop::Run() {
  pollfd waiting{wake_.get(), POLLIN, 0};
  while (poll(&waiting, 1, -1) < 0 && errno == EINTR) {
  }
  if (ended_) return;
  nbdkit_shutdown();
  uint64_t begun_before = activity_().begun;
  while (!ended_) {
    poll(nullptr, 0, kSweepMs);
    const Activity now = activity_();
    // Again and again: a connection may have been in the middle of its accept.
    if (now.in_flight == 0 && now.begun == begun_before) EndReadingFromClients();
    begun_before = now.begun;
  }
}

}  // namespace ebb::storage
