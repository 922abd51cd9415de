// Presets: the setting that a node of a device class starts with, found by measurement
// (docs/presets.md). The class is that of the capacity devices.
#pragma once

#include <span>
#include <string_view>

#include "storage-backend/knobs/knobs.h"

namespace ebb::storage {

// "disk", "sata-ssd", "qlc-ssd", "nvme", "unknown".
std::span<const std::string_view> DeviceClasses();

// The vendor's default with what differs for `device_class`; the default for any other word.
Setting PresetSetting(std::string_view device_class);

}  // namespace ebb::storage
