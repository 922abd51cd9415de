// Nodes with one thing wrong each; the check has to find it and to change nothing.
#include "storage-backend/check/node_check.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/node_open.h"
#include "tests/storage-backend/control/scratch_dir.h"
#include "tests/storage-backend/volume/striped_fixture.h"
#include "tests/storage-backend/volume/volume_fixture.h"
#include "tests/support/program.h"

namespace ebb::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kStripeBlocks = StripeLayout::kStripeBytes / kBlockBytes;

// Two groups with blocks in the capacity tier and newer, dirty ones in the log; closed cleanly.
class CheckGroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.config().setting.Set(KnobId::kCompression, static_cast<int64_t>(Compression::kOff));
    ASSERT_TRUE(node_.Open().ok());
    for (uint64_t g = 0; g < 2; ++g) Put(g * kStripeBlocks, 24, 1);
    ASSERT_TRUE(node_.volume().Drain(nullptr).ok());
    for (uint64_t g = 0; g < 2; ++g) Put(g * kStripeBlocks + 12, 24, 2);
    ASSERT_TRUE(node_.volume().Close().ok());
    node_.Kill();
  }

  void Put(uint64_t first, uint64_t count, uint64_t version) {
    for (uint64_t block = first; block < first + count; ++block) {
      ASSERT_TRUE(
          node_.volume().Write(block * kBlockBytes, MakeBlock(block, version).span(), false).ok());
    }
  }

  absl::StatusOr<CheckReport> Check(bool data = true) {
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<CheckGroup> groups;
    const auto open = [&](FaultyDisk& disk) {
      devices.push_back(disk.Open());
      return devices.back().get();
    };
    for (size_t g = 0; g < node_.group_count(); ++g) {
      CheckGroup group;
      group.cache = open(*node_.group(g).cache);
      for (const auto& disk : node_.group(g).capacity) group.capacity.push_back(open(*disk));
      group.metadata = node_.group(g).metadata.get();
      groups.push_back(std::move(group));
    }
    return CheckGroups(groups, {.data = data, .progress = nullptr});
  }
  // The only fault of the node.
  CheckReport::Fault TheFault(bool data = true) {
    const auto report = Check(data);
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return {};
    EXPECT_EQ(report->fault_count, 1U);
    for (const auto& fault : report->faults) SCOPED_TRACE(fault.area + ": " + fault.text);
    return report->faults.empty() ? CheckReport::Fault() : report->faults[0];
  }
  // Flips a bit in the block of `disk` that holds `content`.
  static void Flip(FaultyDisk& disk, const AlignedBuffer& content) {
    const auto device = disk.Open();
    AlignedBuffer block(kBlockBytes);
    for (uint64_t offset = 0; offset < device->size_bytes(); offset += kBlockBytes) {
      ASSERT_TRUE(device->Read(offset, block.span()).ok());
      if (std::memcmp(block.data(), content.data(), kBlockBytes) != 0) continue;
      disk.FlipBits(offset + 99, 1);
      return;
    }
    FAIL() << "the block is not there";
  }

  StripedTestNode node_{2, 21};
};

TEST_F(CheckGroupsTest, AWholeNodeIsCleanAndNothingIsWritten) {
  const uint64_t writes = node_.power().writes();

  const auto report = Check();

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->fault_count, 0U) << report->faults[0].text;
  EXPECT_TRUE(report->skipped.empty());
  EXPECT_TRUE(report->closed_cleanly);
  EXPECT_EQ(report->dirty_bytes, 2 * 24 * kBlockBytes);
  EXPECT_EQ(report->volume_bytes, node_.config().volume_bytes);
  // In the capacity tier 24 a group; in the log those and 12 newer ones.
  EXPECT_EQ(report->verified_blocks, 2 * (24 + 36));
  EXPECT_EQ(node_.power().writes(), writes);
}

TEST_F(CheckGroupsTest, FindsOneDamagedCopyOfASuperblock) {
  node_.group(1).cache->FlipBits(20, 1);

  const CheckReport::Fault fault = TheFault();
  EXPECT_EQ(fault.area, "superblock");
  EXPECT_THAT(fault.text,
              AllOf(HasSubstr("group 2"), HasSubstr("first copy"), HasSubstr("wrong checksum")));
}

TEST_F(CheckGroupsTest, FindsADeviceWithoutASuperblock) {
  FaultyDisk& disk = *node_.group(0).capacity[0];
  disk.FlipBits(20, 1);
  disk.FlipBits(disk.Open()->size_bytes() - 4000, 1);

  const auto report = Check();
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->fault_count, 1U);
  EXPECT_THAT(report->faults[0].text, HasSubstr("both copies of the superblock are damaged"));
  ASSERT_EQ(report->skipped.size(), 1U);
}

TEST_F(CheckGroupsTest, FindsSwappedGroups) {
  std::swap(node_.group(0).cache, node_.group(1).cache);

  const auto report = Check();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->fault_count, 2U);
  EXPECT_THAT(report->faults[0].text, HasSubstr("is of group 2 of 2 of this node"));
}

TEST_F(CheckGroupsTest, FindsABrokenChainOfTheLog) {
  // The header of the first group of the second segment: groups behind it were durable.
  const uint64_t second_segment = (1 + 8) * kBlockBytes;
  node_.group(0).cache->FlipBits(second_segment + 40, 1);

  const auto report = Check();
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->fault_count, 1U);
  EXPECT_EQ(report->faults[0].area, "cache log");
  EXPECT_THAT(report->faults[0].text, HasSubstr("cache log is damaged"));
  EXPECT_THAT(report->skipped, ::testing::ElementsAre(HasSubstr("group 1: data")));
}

// Goal: no record of the map can be damaged or go missing unseen.
// Method: flip a bit of the first record of each table, then take the record away.
TEST_F(CheckGroupsTest, FindsDamagedAndMissingRecordsOfTheMap) {
  MemMetadata& metadata = *node_.group(0).metadata;
  size_t tables = 0;
  for (const Table table : {Table::kMap, Table::kUnits, Table::kSegments}) {
    std::string key;
    std::string value;
    ASSERT_TRUE(metadata
                    .Scan(table, "", "",
                          [&](std::string_view found_key, std::string_view found) {
                            key = found_key;
                            value = found;
                            return false;
                          })
                    .ok());
    if (value.empty()) continue;
    ++tables;
    std::string flipped = value;
    flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
    for (const bool missing : {false, true}) {
      SCOPED_TRACE(std::string(TableName(table)) + (missing ? ", missing" : ", flipped"));
      MetadataBatch harm;
      if (missing) {
        harm.Delete(table, key);
      } else {
        harm.Put(table, key, flipped);
      }
      ASSERT_TRUE(metadata.Commit(harm, true).ok());

      const auto report = Check(/*data=*/false);

      ASSERT_TRUE(report.ok()) << report.status();
      ASSERT_GT(report->fault_count, 0U);
      EXPECT_EQ(report->faults[0].area, "map");
      MetadataBatch heal;
      heal.Put(table, key, value);
      ASSERT_TRUE(metadata.Commit(heal, true).ok());
    }
  }
  EXPECT_GT(tables, 0U);
}

TEST_F(CheckGroupsTest, FindsADamagedBlockOfTheLogOnlyWithData) {
  Flip(*node_.group(0).cache, MakeBlock(20, 2));

  EXPECT_EQ(Check(/*data=*/false)->fault_count, 0U);
  const CheckReport::Fault fault = TheFault();
  EXPECT_EQ(fault.area, "data");
  EXPECT_THAT(fault.text, AllOf(HasSubstr("group 1: block 20"), HasSubstr("the only copy")));
}

TEST_F(CheckGroupsTest, FindsADamagedBlockOfTheCapacityTierOnlyWithData) {
  Flip(*node_.group(0).capacity[0], MakeBlock(5, 1));

  EXPECT_EQ(Check(/*data=*/false)->fault_count, 0U);
  const CheckReport::Fault fault = TheFault();
  EXPECT_EQ(fault.area, "data");
  EXPECT_THAT(fault.text, HasSubstr("block 5"));
}

TEST(CheckBlankTest, ThereIsNothingToCheck) {
  StripedTestNode node(1, 3);
  const auto cache = node.group(0).cache->Open();
  const auto capacity = node.group(0).capacity[0]->Open();
  const auto report = CheckGroups({{.cache = cache.get(),
                                    .capacity = {capacity.get()},
                                    .metadata = node.group(0).metadata.get()}},
                                  {});
  EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
}

// The program on real files and a real RocksDB.
class CheckCommandTest : public ::testing::Test {
 protected:
  CheckCommandTest() {
    config_.name = "test";
    config_.volume_bytes = 16 * kMiB;
    config_.control_socket = scratch_.File("control.sock");
    config_.state_dir = scratch_.File("state");
    config_.nbd.socket = scratch_.File("nbd.sock");
    config_.groups.resize(1);
    config_.groups[0].metadata_dir = scratch_.File("metadata");
    config_.groups[0].cache = {.path = scratch_.File("cache.img"), .create_bytes = 8 * kMiB};
    config_.groups[0].capacity.push_back(
        {.path = scratch_.File("capacity.img"), .create_bytes = 64 * kMiB});
    std::ofstream(scratch_.File("node.toml")) << FormatNodeConfig(config_);
  }

  std::unique_ptr<NodeServer> Start() {
    auto node = OpenNode(config_, NodeServerOptions());
    EXPECT_TRUE(node.ok()) << node.status();
    return node.ok() ? *std::move(node) : nullptr;
  }
  void MakeNode() {
    auto node = Start();
    ASSERT_NE(node, nullptr);
    for (uint64_t block = 0; block < 100; ++block) {
      ASSERT_TRUE(node->Write(block * kBlockBytes, MakeBlock(block, 1).span(), false).ok());
    }
    ASSERT_TRUE(node->Close().ok());
  }
  ebb::testing::ProgramResult Ebb(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"node", "check", "--config", scratch_.File("node.toml")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ebb::testing::RunProgram(std::string(EBB_BINARY_DIR) + "/bin/ebb", arguments, {});
  }
  // Every file's content.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch_.File(""))) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      std::stringstream content;
      content << file.rdbuf();
      files[entry.path().string()] = content.str();
    }
    return files;
  }

  ScratchDir scratch_;
  NodeConfig config_;
};

TEST_F(CheckCommandTest, CleanNodeIsExitCodeZeroAndNoFileChanges) {
  MakeNode();
  const auto before = Files();

  const auto outcome = Ebb({"--data"});

  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no fault"));
  const auto after = Files();
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [path, content] : before) EXPECT_TRUE(after.at(path) == content) << path;
  // And the node still starts.
  auto node = Start();
  ASSERT_NE(node, nullptr);
  EXPECT_TRUE(node->Close().ok());
}

TEST_F(CheckCommandTest, FaultsAreExitCodeOneAndInTheJson) {
  MakeNode();
  {
    std::fstream file(scratch_.File("cache.img"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('x');
  }

  const auto outcome = Ebb({"-o", "json"});

  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["clean"], false);
  EXPECT_EQ(json["fault_count"], 1);
  EXPECT_EQ(json["faults"][0]["area"], "superblock");
}

TEST_F(CheckCommandTest, ARunningNodeIsExitCodeTwo) {
  auto node = Start();
  ASSERT_NE(node, nullptr);

  const auto outcome = Ebb({});

  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("another node has it open"));
  EXPECT_TRUE(node->Close().ok());
}

TEST_F(CheckCommandTest, MissingDevicesAreExitCodeTwoAndNothingIsMade) {
  const auto outcome = Ebb({});

  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("could not check"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("metadata")));
}

}  // namespace
}  // namespace ebb::storage
