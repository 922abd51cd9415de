#include "storage-backend/control/durable_file.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "fmt/format.h"
#include "storage-backend/control/scoped_fd.h"

namespace ebb::storage {
namespace {

absl::Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, fmt::format("cannot write {}", path));
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFileDurably(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  {
    const ScopedFd file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoStatus(errno, fmt::format("cannot create {}", temporary));
    EBB_RETURN_IF_ERROR(WriteAll(file.get(), content, temporary));
    if (fsync(file.get()) != 0) return ErrnoStatus(errno, fmt::format("cannot sync {}", temporary));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot rename {} to {}", temporary, path));
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const ScopedFd folder(
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || fsync(folder.get()) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot sync the folder of {}", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return absl::NotFoundError(fmt::format("{} does not exist", path));
    return ErrnoStatus(errno, fmt::format("cannot open {}", path));
  }
  std::string content;
  std::array<char, 65536> chunk;
  while (true) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("cannot read {}", path));
    if (got == 0) return content;
    content.append(chunk.data(), static_cast<size_t>(got));
  }
}

std::string Crc32cHex(std::string_view text) {
  return fmt::format("{:08x}", Crc32c(std::as_bytes(std::span(text.data(), text.size()))));
}

}  // namespace ebb::storage
