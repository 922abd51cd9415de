// DetectDeviceClass tells what kind of device a file, folder or block device lies on.
#pragma once

#include <string>

namespace ebb::storage {

// "disk" (the kernel says it rotates), "nvme" (by its name), "sata-ssd" (neither), or "unknown": no
// single block device is behind it (tmpfs, a network, a volume manager), or it does not exist.
// QLC flash says nothing of itself: it has to be told. `sys_root` is where sysfs is mounted.
std::string DetectDeviceClass(const std::string& path, const std::string& sys_root = "/sys");

}  // namespace ebb::storage
