#include "storage-backend/knobs/presets.h"

#include <gtest/gtest.h>

namespace ebb::storage {
namespace {

TEST(PresetsTest, EveryClassHasALegalSetting) {
  for (const std::string_view device_class : DeviceClasses()) {
    EXPECT_TRUE(SettingFaults(PresetSetting(device_class), KnobLimits()).empty()) << device_class;
  }
}

TEST(PresetsTest, WhatIsUnknownGetsTheDefault) {
  EXPECT_EQ(PresetSetting("unknown"), Setting());
  EXPECT_EQ(PresetSetting("floppy"), Setting());
}

TEST(PresetsTest, DisksAreTreatedAsDisks) { EXPECT_NE(PresetSetting("disk"), Setting()); }

}  // namespace
}  // namespace ebb::storage
