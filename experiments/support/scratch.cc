#include "experiments/support/scratch.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::experiments {
namespace {

constexpr const char* kMemoryFolder = "/dev/shm";

uint64_t MemoryAvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return kib * kKiB;
    std::getline(file, unit);
  }
  return 0;
}

uint64_t FreeBytes(const char* folder) {
  struct statvfs status = {};
  return statvfs(folder, &status) == 0 ? uint64_t{status.f_bavail} * status.f_frsize : 0;
}

}  // namespace

bool TakesDirectIo(const std::string& folder) {
  std::string path = folder + "/ebb-direct-io-XXXXXX";
  const int fd = mkostemp(path.data(), O_DIRECT);
  if (fd < 0) return false;
  AlignedBuffer block(AlignedBuffer::kAlignment);
  const bool written =
      pwrite(fd, block.data(), block.size(), 0) == static_cast<ssize_t>(AlignedBuffer::kAlignment);
  close(fd);
  unlink(path.c_str());
  return written;
}

std::string ChooseScratchParent(uint64_t bytes) {
  // As much again stays free: for the page cache, the node's own memory and everybody else.
  const bool room = FreeBytes(kMemoryFolder) >= bytes && MemoryAvailableBytes() >= 2 * bytes;
  return room && TakesDirectIo(kMemoryFolder) ? kMemoryFolder : "/tmp";
}

absl::StatusOr<std::string> MakeScratchFolder(const std::string& parent) {
  std::string path = parent + "/ebb-experiment-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, fmt::format("make a folder in {}", parent));
  }
  return path;
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make(const std::string& parent) {
  EBB_ASSIGN_OR_RETURN(std::string path, MakeScratchFolder(parent));
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ebb::experiments
