#include "storage-backend/control/device_class.h"

#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fmt/format.h"

namespace ebb::storage {

std::string DetectDeviceClass(const std::string& path, const std::string& sys_root) {
  namespace fs = std::filesystem;
  struct stat about {};
  // A node that is yet to be made: what its folder will lie on.
  fs::path existing(path);
  while (stat(existing.c_str(), &about) != 0) {
    const fs::path parent = existing.parent_path();
    if (parent.empty() || parent == existing) return "unknown";
    existing = parent;
  }
  const dev_t device = S_ISBLK(about.st_mode) ? about.st_rdev : about.st_dev;
  std::error_code error;
  const fs::path entry = fs::canonical(
      fmt::format("{}/dev/block/{}:{}", sys_root, major(device), minor(device)), error);
  if (error) return "unknown";
  // A partition's queue is its disk's.
  const fs::path disk = fs::exists(entry / "queue", error) ? entry : entry.parent_path();
  std::ifstream file(disk / "queue" / "rotational");
  int rotational = -1;
  if (!(file >> rotational)) return "unknown";
  const std::string name = disk.filename().string();
  // What a volume manager or RAID says of its members is not to be trusted.
  if (name.starts_with("dm-") || name.starts_with("md")) return "unknown";
  if (rotational == 1) return "disk";
  return name.starts_with("nvme") ? "nvme" : "sata-ssd";
}

}  // namespace ebb::storage
