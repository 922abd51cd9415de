// Space over a live node: duplicates are stored once, text shrinks, and what the node reports
// agrees with the files themselves.
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lz4.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "base/rng.h"
#include "base/units.h"
#include "tests/support/program.h"

namespace ebb {
namespace {

using Json = nlohmann::json;
using testing::ProgramResult;
using testing::RunProgram;
using testing::ScratchFolder;

constexpr uint64_t kCopyBytes = 48 * kMiB;

const std::string kEbb = std::string(EBB_BINARY_DIR) + "/bin/ebb";

class SpaceTest : public ::testing::Test {
 protected:
  std::string node_dir() const { return scratch_.path() + "/node"; }

  // All of the content fits the cache: a node that falls behind leaves reduction out.
  void StartNode(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "node",         "start", "--dir",           node_dir(), "--volume-size",    "256M",
        "--cache-size", "256M",  "--capacity-size", "512M",     "--capacity-count", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult start = RunProgram(kEbb, arguments);
    ASSERT_EQ(start.exit_code, 0) << start.err;
  }

  void TearDown() override {
    const ProgramResult stop = RunProgram(kEbb, {"node", "stop", "--dir", node_dir()});
    EXPECT_EQ(stop.exit_code, 0) << stop.err;
  }

  // Puts `content` at the start of the export and moves all of it to the capacity tier.
  void WriteAndDrain(const std::string& content) {
    const std::string image = scratch_.path() + "/image";
    std::ofstream(image, std::ios::binary) << content;
    const ProgramResult copy =
        RunProgram("/usr/bin/nbdcopy", {image, "nbd+unix:///?socket=" + node_dir() + "/nbd.sock"});
    ASSERT_EQ(copy.exit_code, 0) << copy.err;
    const ProgramResult drain = RunProgram(kEbb, {"node", "drain", "--dir", node_dir()});
    ASSERT_EQ(drain.exit_code, 0) << drain.err;
  }

  Json Gauges() {
    const ProgramResult status =
        RunProgram(kEbb, {"node", "status", "--dir", node_dir(), "-o", "json"});
    EXPECT_EQ(status.exit_code, 0) << status.err;
    return Json::parse(status.out)["metrics"]["gauges"];
  }

  // Bytes that the capacity files really occupy.
  uint64_t AllocatedBytes() {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(node_dir())) {
      if (entry.path().filename().string().rfind("capacity", 0) != 0) continue;
      struct stat about {};
      EXPECT_EQ(stat(entry.path().c_str(), &about), 0);
      bytes += static_cast<uint64_t>(about.st_blocks) * 512;
    }
    return bytes;
  }

  ScratchFolder scratch_;
};

std::string RandomBytes(size_t bytes) {
  Rng rng(11);
  std::string content(bytes, '\0');
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = rng.Next();
    content.replace(i, 8, reinterpret_cast<const char*>(&word), 8);
  }
  return content;
}

// Words with a skewed distribution, as text has; no two blocks alike.
std::string Text(size_t bytes) {
  static constexpr std::array<const char*, 16> kWords = {
      "the ",   "of ", "segment ", "destage ",  "a ",    "write ", "cache ", "and ",
      "flush ", "is ", "to ",      "capacity ", "knob ", "trial ", "in ",    "verdict "};
  Rng rng(12);
  std::string content;
  content.reserve(bytes + 32);
  while (content.size() < bytes) {
    content += kWords[rng.Below(1 + rng.Below(kWords.size()))];
    if (rng.Chance(0.1)) content += std::to_string(rng.Below(100000)) + "\n";
  }
  content.resize(bytes);
  return content;
}

// What LZ4 makes of it in the node's default units of 32 KiB, each rounded up to a sector.
uint64_t Lz4Bytes(const std::string& content) {
  constexpr size_t kUnitBytes = 32 * kKiB;
  std::vector<char> out(LZ4_compressBound(kUnitBytes));
  uint64_t bytes = 0;
  for (size_t at = 0; at < content.size(); at += kUnitBytes) {
    const int stored = LZ4_compress_default(content.data() + at, out.data(), kUnitBytes,
                                            static_cast<int>(out.size()));
    bytes += (static_cast<uint64_t>(stored) + 511) / 512 * 512;
  }
  return bytes;
}

double Ratio(uint64_t a, uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

TEST_F(SpaceTest, TwoIdenticalCopiesTakeTheSpaceOfOne) {
  StartNode({});
  const std::string copy = RandomBytes(kCopyBytes);

  WriteAndDrain(copy + copy);

  const Json gauges = Gauges();
  EXPECT_EQ(gauges["dirty_bytes"].get<uint64_t>(), 0U);
  EXPECT_EQ(gauges["logical_bytes"].get<uint64_t>(), 2 * kCopyBytes);
  EXPECT_EQ(gauges["unique_bytes"].get<uint64_t>(), kCopyBytes);
  const auto physical = gauges["physical_bytes"].get<uint64_t>();
  EXPECT_NEAR(Ratio(physical, kCopyBytes), 1.0, 0.05) << "headers and padding";
  EXPECT_NEAR(Ratio(physical, AllocatedBytes()), 1.0, 0.02);
}

TEST_F(SpaceTest, TextShrinksByTheCodecsRatioAndTheFilesAgree) {
  StartNode({});
  const std::string text = Text(kCopyBytes);

  WriteAndDrain(text);

  const Json gauges = Gauges();
  EXPECT_EQ(gauges["logical_bytes"].get<uint64_t>(), kCopyBytes);
  EXPECT_EQ(gauges["unique_bytes"].get<uint64_t>(), kCopyBytes);
  const auto physical = gauges["physical_bytes"].get<uint64_t>();
  EXPECT_NEAR(Ratio(physical, Lz4Bytes(text)), 1.0, 0.05) << "headers and padding";
  EXPECT_LT(Ratio(physical, kCopyBytes), 0.6);
  EXPECT_NEAR(Ratio(physical, AllocatedBytes()), 1.0, 0.02);
}

TEST_F(SpaceTest, TrimmedSpaceGoesBackToTheFiles) {
  StartNode({});
  WriteAndDrain(RandomBytes(kCopyBytes));
  const uint64_t before = AllocatedBytes();

  const ProgramResult trim = RunProgram(
      "/bin/sh",
      {"-c", "/usr/bin/fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=" + node_dir() +
                 "/nbd.sock' --rw=trim --bs=1M --size=48M --output-format=terse"});
  ASSERT_EQ(trim.exit_code, 0) << trim.err;
  ASSERT_EQ(RunProgram(kEbb, {"node", "drain", "--dir", node_dir()}).exit_code, 0);

  const Json gauges = Gauges();
  EXPECT_EQ(gauges["logical_bytes"].get<uint64_t>(), 0U);
  EXPECT_LT(AllocatedBytes(), before / 4);
  EXPECT_NEAR(static_cast<double>(gauges["physical_bytes"].get<uint64_t>()),
              static_cast<double>(AllocatedBytes()), 0.02 * static_cast<double>(before));
}

}  // namespace
}  // namespace ebb
