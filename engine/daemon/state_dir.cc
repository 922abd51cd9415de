#include "engine/daemon/state_dir.h"

#include <array>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "fmt/format.h"

namespace ebb::engine {
namespace {

// What the lock's owner wrote into it: its process id, for people.
std::string OwnerOf(int lock) {
  std::array<char, 32> text{};
  const ssize_t bytes = pread(lock, text.data(), text.size() - 1, 0);
  std::string owner(text.data(), static_cast<size_t>(bytes > 0 ? bytes : 0));
  while (!owner.empty() && owner.back() == '\n') owner.pop_back();
  return owner.empty() ? "of unknown id" : owner;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDir>> StateDir::Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::absolute(path, error).parent_path();
  if (!error) std::filesystem::create_directories(parent, error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, fmt::format("state folder {}", path));
  }
  const std::string file = path + "/lock";
  const int lock = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return ErrnoStatus(errno, fmt::format("state folder {}", path));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    const std::string owner = OwnerOf(lock);
    close(lock);
    if (why != EWOULDBLOCK) return ErrnoStatus(why, fmt::format("lock {}", file));
    return absl::FailedPreconditionError(
        fmt::format("state folder {} is in use by the daemon with process id {}; stop that one or "
                    "choose another folder with --state-dir",
                    path, owner));
  }
  const std::string owner = fmt::format("{}\n", getpid());
  if (ftruncate(lock, 0) != 0 ||
      pwrite(lock, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    const int why = errno;
    close(lock);
    return ErrnoStatus(why, fmt::format("lock {}", file));
  }
  return std::unique_ptr<StateDir>(new StateDir(path, lock));
}

StateDir::~StateDir() { close(lock_); }

}  // namespace ebb::engine
