#include "storage-backend/knobs/presets.h"

#include <array>

namespace ebb::storage {
namespace {

constexpr std::array<std::string_view, 5> kClasses = {"disk", "sata-ssd", "qlc-ssd", "nvme",
                                                      "unknown"};

struct Difference {
  std::string_view device_class;
  KnobId knob;
  int64_t value;
};

// Only what a measurement told apart from its noise: docs/presets.md has the figures.
constexpr std::array<Difference, 4> kDifferences = {{
    {"disk", KnobId::kNvmeReadShare, 10},
    {"sata-ssd", KnobId::kNvmeReadShare, 10},
    {"qlc-ssd", KnobId::kNvmeReadShare, 10},
    {"nvme", KnobId::kNvmeReadShare, 10},
}};

}  // namespace

std::span<const std::string_view> DeviceClasses() { return kClasses; }

Setting PresetSetting(std::string_view device_class) {
  Setting setting;
  for (const Difference& one : kDifferences) {
    if (one.device_class == device_class) setting.Set(one.knob, one.value);
  }
  return setting;
}

}  // namespace ebb::storage
