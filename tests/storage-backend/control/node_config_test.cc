#include "storage-backend/control/node_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "storage-backend/knobs/presets.h"

namespace ebb::storage {
namespace {

using testing::HasSubstr;

constexpr const char* kGood = R"(name = "demo"
device_class = "disk"
volume_size = "8GiB"
control_socket = "control.sock"
state_dir = "state"
metadata_dir = "/var/meta"

[nbd]
socket = "nbd.sock"
threads = 4

[cache]
path = "cache.img"
size = "1GiB"
shape = "nvme"

[[capacity]]
path = "c1.img"

[[capacity]]
path = "/dev/sdx"
shape = "disk-7200"
shape_scale = 10

[setting]
destage_watermark = 60
compression = "zstd1"
read_cache_bytes = "64MiB"
)";

std::string FaultOf(const std::string& text) {
  const auto config = ParseNodeConfig(text, "node.toml", "/base");
  EXPECT_FALSE(config.ok());
  return std::string(config.status().message());
}

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(NodeConfigTest, ReadsEveryKey) {
  const auto config = ParseNodeConfig(kGood, "node.toml", "/base");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name, "demo");
  EXPECT_EQ(config->device_class, "disk");
  EXPECT_EQ(config->volume_bytes, 8 * kGiB);
  EXPECT_EQ(config->control_socket, "/base/control.sock");
  EXPECT_EQ(config->groups[0].metadata_dir, "/var/meta");
  EXPECT_EQ(config->nbd.socket, "/base/nbd.sock");
  EXPECT_EQ(config->nbd.threads, 4);
  EXPECT_EQ(config->groups[0].cache.create_bytes, kGiB);
  EXPECT_EQ(config->groups[0].cache.shape, "nvme");
  ASSERT_EQ(config->groups[0].capacity.size(), 2U);
  EXPECT_EQ(config->groups[0].capacity[0].path, "/base/c1.img");
  EXPECT_EQ(config->groups[0].capacity[1].path, "/dev/sdx");
  EXPECT_EQ(config->groups[0].capacity[1].shape_scale, 10);
  EXPECT_EQ(config->initial[KnobId::kDestageWatermark], 60);
  EXPECT_EQ(config->initial.As<Compression>(KnobId::kCompression), Compression::kZstd1);
  EXPECT_EQ(config->initial[KnobId::kReadCacheBytes], static_cast<int64_t>(64 * kMiB));
}

TEST(NodeConfigTest, FormattedConfigReadsBackTheSame) {
  auto config = ParseNodeConfig(kGood, "node.toml", "/base");
  ASSERT_TRUE(config.ok());
  config->name = "a \"quoted\" \\ name\twith a tab";
  config->groups[0].cache.create_bytes = 12'345 * 4096;
  const std::string text = FormatNodeConfig(*config);

  const auto again = ParseNodeConfig(text, "again.toml", "/elsewhere");

  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(FormatNodeConfig(*again), text);
  EXPECT_EQ(again->name, config->name);
  EXPECT_EQ(again->groups[0].cache.create_bytes, config->groups[0].cache.create_bytes);
  EXPECT_EQ(again->initial, config->initial);
}

TEST(NodeConfigTest, UnknownKeyIsSaidWithItsPlaceAndASuggestion) {
  EXPECT_THAT(FaultOf(Replaced("volume_size", "volume_sze")),
              HasSubstr("node.toml:3:14: there is no key volume_sze: did you mean volume_size?"));
  EXPECT_THAT(FaultOf(Replaced("threads", "thread")),
              HasSubstr("there is no key nbd.thread: did you mean threads?"));
  EXPECT_THAT(FaultOf(Replaced("destage_watermark", "destage_watermrk")),
              HasSubstr("did you mean destage_watermark?"));
}

TEST(NodeConfigTest, UnknownShapeIsSaidWithTheKnownOnes) {
  EXPECT_THAT(
      FaultOf(Replaced("disk-7200", "disk-7300")),
      HasSubstr("capacity 2.shape must be one of disk-7200, sata-ssd, qlc-ssd, nvme: did you mean "
                "disk-7200?"));
}

TEST(NodeConfigTest, EveryFaultIsSaid) {
  const std::string message = FaultOf(R"(
name = 3
volume_size = "8 parsecs"
state_dir = "s"
metadata_dir = "s"
[cache]
path = "x"
shape_scale = "fast"
[setting]
destage_watermark = 1000
compression = "brotli"
)");
  EXPECT_THAT(message, HasSubstr("node.toml:2:8: name must be a text in quotes"));
  EXPECT_THAT(message, HasSubstr("volume_size must be a size"));
  EXPECT_THAT(message, HasSubstr("control_socket is missing"));
  EXPECT_THAT(message, HasSubstr("one to 7 capacity devices are needed"));
  EXPECT_THAT(message, HasSubstr("cache.shape_scale must be a number"));
  EXPECT_THAT(message, HasSubstr("setting.destage_watermark must be between"));
  EXPECT_THAT(message, HasSubstr("setting.compression must be one of"));
  EXPECT_THAT(message, HasSubstr("/base/s is named for two purposes"));
}

TEST(NodeConfigTest, SyntaxErrorIsSaidWithItsPlace) {
  EXPECT_THAT(FaultOf("name = \"demo\"\nvolume_size = = 3\n"), HasSubstr("node.toml:2:"));
}

TEST(NodeConfigTest, DeviceNamedTwiceIsRefused) {
  EXPECT_THAT(FaultOf(Replaced("/dev/sdx", "c1.img")),
              HasSubstr("/base/c1.img is named for two purposes"));
}

TEST(NodeConfigTest, ListensOnOneWayOnly) {
  EXPECT_THAT(FaultOf(Replaced("threads = 4", "port = 10809")), HasSubstr("choose one way"));
  const auto tcp = ParseNodeConfig(Replaced("socket = \"nbd.sock\"", "port = 10810"), "n", "/");
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ(NbdUri(tcp->nbd), "nbd://127.0.0.1:10810");
}

TEST(NodeConfigTest, MissingFileIsSaid) {
  const auto config = LoadNodeConfig("/nonexistent/node.toml");
  EXPECT_EQ(std::string(config.status().message()), "/nonexistent/node.toml does not exist");
}

constexpr const char* kTwoGroups = R"(name = "demo"
volume_size = "8GiB"
control_socket = "control.sock"
state_dir = "state"

[[group]]
metadata_dir = "meta-1"
cache = { path = "/dev/nvme0n1" }
capacity = [{ path = "/dev/sda" }, { path = "/dev/sdb" }]

[[group]]
metadata_dir = "meta-2"
[group.cache]
path = "cache-2.img"
size = "1GiB"
[[group.capacity]]
path = "capacity-2.img"
shape = "disk-7200"
)";

TEST(NodeConfigTest, ReadsDiskGroupsAndWritesThemAgain) {
  const auto config = ParseNodeConfig(kTwoGroups, "node.toml", "/base");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->groups.size(), 2U);
  EXPECT_EQ(config->groups[0].metadata_dir, "/base/meta-1");
  EXPECT_EQ(config->groups[0].cache.path, "/dev/nvme0n1");
  ASSERT_EQ(config->groups[0].capacity.size(), 2U);
  EXPECT_EQ(config->groups[0].capacity[1].path, "/dev/sdb");
  EXPECT_EQ(config->groups[1].cache.create_bytes, kGiB);
  EXPECT_EQ(config->groups[1].capacity[0].shape, "disk-7200");

  const std::string text = FormatNodeConfig(*config);
  const auto again = ParseNodeConfig(text, "again.toml", "/elsewhere");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(FormatNodeConfig(*again), text);
}

TEST(NodeConfigTest, FaultsOfDiskGroupsNameTheGroup) {
  const auto fault = [](const std::string& from, const std::string& to) {
    std::string text = kTwoGroups;
    return FaultOf(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_THAT(fault("disk-7200", "disk-7300"), HasSubstr("group 2, capacity 1.shape must be"));
  EXPECT_THAT(fault("meta-2", "meta-1"), HasSubstr("meta-1 is named for two purposes"));
  EXPECT_THAT(fault("metadata_dir = \"meta-2\"", ""), HasSubstr("group 2.metadata_dir is missing"));
  EXPECT_THAT(fault("state_dir = \"state\"", "state_dir = \"state\"\nmetadata_dir = \"m\""),
              HasSubstr("there is no key metadata_dir"));
  std::string many = kTwoGroups;
  for (int i = 0; i < 4; ++i) {
    many += "\n[[group]]\nmetadata_dir = \"m" + std::to_string(i) + "\"\n";
  }
  EXPECT_THAT(FaultOf(many), HasSubstr("one to 5 disk groups"));
}

TEST(NodeConfigTest, DeviceClassSetsTheDefaultsAndSettingOverridesThem) {
  const std::string base = Replaced("[setting]\ndestage_watermark = 60\n", "[setting]\n");
  const auto disk = ParseNodeConfig(base, "node.toml", "/base");
  ASSERT_TRUE(disk.ok()) << disk.status();
  const Setting preset = PresetSetting("disk");
  ASSERT_NE(preset, Setting());
  for (const KnobSpec& spec : KnobTable()) {
    // What kGood sets by itself.
    if (spec.id == KnobId::kCompression || spec.id == KnobId::kReadCacheBytes) continue;
    EXPECT_EQ(disk->initial[spec.id], preset[spec.id]) << spec.name;
  }

  // Every knob of the preset put back to the vendor's default stays so, also through the text.
  NodeConfig plain = *disk;
  plain.initial = Setting();
  const auto again = ParseNodeConfig(FormatNodeConfig(plain), "again.toml", "/base");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->initial, Setting());
  EXPECT_EQ(again->device_class, "disk");
}

TEST(NodeConfigTest, UnknownDeviceClassIsSaidWithTheKnownOnes) {
  EXPECT_THAT(FaultOf(Replaced("device_class = \"disk\"", "device_class = \"dsk\"")),
              HasSubstr("device_class must be one of disk, sata-ssd, qlc-ssd, nvme, unknown"));
}

}  // namespace
}  // namespace ebb::storage
