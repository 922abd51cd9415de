#include "storage-backend/volume/striped_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "fmt/format.h"
#include "tests/storage-backend/volume/queue_player.h"
#include "tests/storage-backend/volume/striped_fixture.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

absl::Status Put(Volume& volume, uint64_t block, uint64_t version) {
  return volume.Write(block * kBlockBytes, MakeBlock(block, version).span(), false);
}

constexpr uint64_t kStripeBlocks = StripeLayout::kStripeBytes / kBlockBytes;

TEST(StripeLayoutTest, EveryByteHasOnePlace) {
  for (uint32_t groups = 1; groups <= 5; ++groups) {
    const StripeLayout layout{groups};
    const uint64_t end = 7 * StripeLayout::kStripeBytes + 12'288;
    uint64_t sum = 0;
    for (uint32_t g = 0; g < groups; ++g) sum += layout.BytesBefore(g, end);
    EXPECT_EQ(sum, end);
    for (uint64_t offset = 0; offset < end; offset += 4096) {
      // A byte's place is how many of its group's bytes lie before it.
      ASSERT_EQ(layout.OffsetInGroup(offset), layout.BytesBefore(layout.GroupOf(offset), offset));
    }
  }
}

// Goal: any requests, also across stripes, behave as on one device, also over restarts and kills.
TEST(StripedVolumeTest, AgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    StripedTestNode node(1 + seed % 3, seed);
    StripedWorkload workload(node, seed);
    ASSERT_EQ(workload.Recover(), "");
    ASSERT_EQ(workload.Run(400), "");
    ASSERT_EQ(workload.VerifyAll(), "");
    ASSERT_TRUE(node.volume().Drain(nullptr).ok());
    EXPECT_EQ(node.volume().Metrics().dirty_bytes, 0U);
    ASSERT_EQ(workload.VerifyAll(), "");
  }
}

class StripedNodeTest : public ::testing::Test {
 protected:
  void OpenAndWrite() {
    ASSERT_TRUE(node_.Open().ok());
    for (uint64_t g = 0; g < 3; ++g) ASSERT_TRUE(Put(node_.volume(), g * kStripeBlocks, 5).ok());
    ASSERT_TRUE(node_.volume().Flush().ok());
  }
  // Reads as it was written in every group.
  void ExpectAllThere() {
    ASSERT_TRUE(node_.Open().ok());
    std::vector<std::byte> data(kBlockBytes);
    for (uint64_t g = 0; g < 3; ++g) {
      ASSERT_TRUE(node_.volume().Read(g * kStripeBlocks * kBlockBytes, data).ok());
      EXPECT_EQ(VersionOf(g * kStripeBlocks, data), 5U);
    }
  }

  StripedTestNode node_{3, 1};
};

TEST_F(StripedNodeTest, RefusesSwappedGroupsAndTellsWhatIsAtStake) {
  OpenAndWrite();
  ASSERT_TRUE(node_.volume().Close().ok());

  const absl::Status status = node_.Open({0, 2, 1});

  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(Text(status), AllOf(HasSubstr("group 2"), HasSubstr("group 3 of 3 of node"),
                                  HasSubstr("12288 bytes that are only in the cache")));
  ExpectAllThere();
}

TEST_F(StripedNodeTest, RefusesAMissingGroup) {
  OpenAndWrite();

  EXPECT_THAT(Text(node_.Open({0, 1})), HasSubstr("given as group 1 of 2"));
  EXPECT_THAT(Text(node_.Open({1})), HasSubstr("given as group 1 of 1"));
  ExpectAllThere();
}

TEST_F(StripedNodeTest, RefusesABlankGroupInPlaceOfOneThatHasServed) {
  OpenAndWrite();
  StripedTestNode::Group old = node_.Replace(1);

  const absl::Status status = node_.Open();
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("group 2 is missing"), HasSubstr("not closed cleanly")));

  node_.group(1) = std::move(old);
  ExpectAllThere();
}

TEST_F(StripedNodeTest, RefusesAGroupOfAnotherNode) {
  OpenAndWrite();
  StripedTestNode other(3, 2);
  ASSERT_TRUE(other.Open().ok());
  other.Kill();
  node_.Kill();
  std::swap(node_.group(1), other.group(1));

  const absl::Status status = node_.Open();
  EXPECT_THAT(Text(status), AllOf(HasSubstr("belongs to node"), HasSubstr("group 2 to node")));

  std::swap(node_.group(1), other.group(1));
  ExpectAllThere();
}

// Goal: a group restored from a copy that missed a session, consistent in itself, is refused.
TEST_F(StripedNodeTest, RefusesAStaleGroup) {
  OpenAndWrite();
  ASSERT_TRUE(node_.volume().Close().ok());
  node_.Kill();
  // The other groups live through one more session, this one does not: the state of its metadata
  // and devices before is what a copy would hold.
  StripedTestNode::Group& group = node_.group(1);
  AlignedBuffer image(group.cache->Open()->size_bytes());
  ASSERT_TRUE(group.cache->Open()->Read(0, image.span()).ok());
  const uint64_t capacity_bytes = group.capacity[0]->Open()->size_bytes();
  std::vector<AlignedBuffer> capacity_first_blocks;
  for (size_t c = 0; c < 2; ++c) {
    capacity_first_blocks.emplace_back(kSuperblockBytes);
    ASSERT_TRUE(group.capacity[c]->Open()->Read(0, capacity_first_blocks[c].span()).ok());
  }
  std::vector<std::pair<std::string, std::string>> rows;
  ASSERT_TRUE(group.metadata
                  ->Scan(Table::kNode, "", "",
                         [&](std::string_view key, std::string_view value) {
                           rows.emplace_back(key, value);
                           return true;
                         })
                  .ok());
  ASSERT_TRUE(node_.Open().ok());
  ASSERT_TRUE(node_.volume().Close().ok());
  node_.Kill();

  ASSERT_TRUE(group.cache->Open()->Write(0, image.span()).ok());
  for (size_t c = 0; c < 2; ++c) {
    auto device = group.capacity[c]->Open();
    ASSERT_TRUE(device->Write(0, capacity_first_blocks[c].span()).ok());
    ASSERT_TRUE(
        device->Write(capacity_bytes - kSuperblockBytes, capacity_first_blocks[c].span()).ok());
  }
  MetadataBatch batch;
  for (const auto& [key, value] : rows) batch.Put(Table::kNode, key, value);
  ASSERT_TRUE(group.metadata->Commit(batch, true).ok());

  EXPECT_THAT(Text(node_.Open()), AllOf(HasSubstr("group 2 is stale"), HasSubstr("has seen it")));
}

TEST_F(StripedNodeTest, FirstStartThatBrokeOffWhileFormattingGoesOn) {
  StripedTestNode probe(3, 9);
  ASSERT_TRUE(probe.Open().ok());
  const uint64_t writes = probe.power().writes();
  for (uint64_t cut = 1; cut <= writes; ++cut) {
    StripedTestNode node(3, 9);
    node.power().CutAtWrite(cut);
    (void)node.Open();
    node.Reboot(cut);
    const absl::Status again = node.Open();
    ASSERT_TRUE(again.ok()) << "cut at write " << cut << " of " << writes << ": " << again;
  }
}

TEST_F(StripedNodeTest, FlushCoversEveryGroup) {
  OpenAndWrite();
  node_.Reboot(3);
  ExpectAllThere();
}

TEST_F(StripedNodeTest, BytesOfTheNodeAreDividedAmongItsGroups) {
  ASSERT_TRUE(node_.Open().ok());
  for (uint64_t block = 0; block < 3 * kStripeBlocks; ++block) {
    ASSERT_TRUE(Put(node_.volume(), block, 1).ok());
    if (block % 8 == 0) {
      ASSERT_TRUE(node_.volume().RunBackgroundStep().ok());
    }
  }
  ASSERT_TRUE(node_.volume().Drain(nullptr).ok());
  Setting setting = node_.volume().CurrentSetting();
  setting.Set(KnobId::kReadCacheBytes, 2 * static_cast<int64_t>(kMiB));
  ASSERT_TRUE(node_.volume().Apply(setting).ok());

  std::vector<std::byte> data(kBlockBytes);
  for (uint64_t block = 0; block < 3 * kStripeBlocks; ++block) {
    ASSERT_TRUE(node_.volume().Read(block * kBlockBytes, data).ok());
  }

  // 3 MiB were read: two groups have 1 MiB each, the third has none.
  const uint64_t used = node_.volume().Metrics().read_cache_used_bytes;
  EXPECT_GT(used, kMiB);
  EXPECT_LE(used, 2 * kMiB);
  EXPECT_EQ(node_.volume().CurrentSetting(), setting);
  setting.Set(KnobId::kReadCacheBytes, 0);
  ASSERT_TRUE(node_.volume().Apply(setting).ok());
  EXPECT_EQ(node_.volume().Metrics().read_cache_used_bytes, 0U);
}

TEST_F(StripedNodeTest, IllegalSettingChangesNoGroup) {
  ASSERT_TRUE(node_.Open().ok());
  const Setting before = node_.volume().CurrentSetting();
  Setting illegal = before;
  illegal.Set(KnobId::kDestageWatermark, 1000);

  EXPECT_TRUE(absl::IsInvalidArgument(node_.volume().Apply(illegal)));
  EXPECT_EQ(node_.volume().CurrentSetting(), before);
}

TEST_F(StripedNodeTest, RequestsCountOnceAndGaugesAddUp) {
  ASSERT_TRUE(node_.Open().ok());
  AlignedBuffer data(2 * kBlockBytes);
  ASSERT_TRUE(
      node_.volume().Write((kStripeBlocks - 1) * kBlockBytes, data.span(), /*fua=*/false).ok());
  ASSERT_TRUE(node_.volume().Flush().ok());

  const VolumeMetrics metrics = node_.volume().Metrics();
  EXPECT_EQ(metrics.write.ops, 1U);
  EXPECT_EQ(metrics.write.bytes, 2 * kBlockBytes);
  EXPECT_EQ(metrics.write.latency.count(), 1U);
  EXPECT_EQ(metrics.flush.ops, 1U);
  EXPECT_EQ(metrics.dirty_bytes, 2 * kBlockBytes);
  EXPECT_EQ(metrics.dirty_bytes + metrics.clean_bytes + metrics.free_bytes,
            metrics.cache_space_bytes);
  EXPECT_EQ(metrics.cache_space_bytes, 3 * 12 * 8 * kBlockBytes);
  std::vector<uint32_t> groups_of_caches;
  for (const DeviceMetrics& device : metrics.devices) {
    if (device.name == "cache") groups_of_caches.push_back(device.group);
    EXPECT_GT(device.writes, 0U) << device.name << " of group " << device.group;
    EXPECT_EQ(device.in_flight, 0U) << device.name << " of group " << device.group;
  }
  EXPECT_EQ(groups_of_caches, (std::vector<uint32_t>{0, 1, 2}));
}

TEST_F(StripedNodeTest, OneFencedGroupFailsOnlyWhatTouchesIt) {
  OpenAndWrite();
  ASSERT_TRUE(Put(node_.volume(), kStripeBlocks, 6).ok());
  node_.group(1).cache->FailNth(Io::Kind::kFlush, 1, FaultyDisk::Fault::kIoError);

  EXPECT_FALSE(node_.volume().Flush().ok());
  EXPECT_FALSE(Put(node_.volume(), kStripeBlocks + 1, 6).ok());
  EXPECT_TRUE(Put(node_.volume(), 1, 6).ok());
  EXPECT_TRUE(Put(node_.volume(), 2 * kStripeBlocks + 1, 6).ok());
  std::vector<std::byte> data(kBlockBytes);
  EXPECT_TRUE(node_.volume().Read(kStripeBlocks * kBlockBytes, data).ok());
}

TEST_F(StripedNodeTest, OutOfRangeRequestsTouchNothing) {
  ASSERT_TRUE(node_.Open().ok());
  AlignedBuffer data(kBlockBytes);
  const uint64_t end = node_.volume().volume_bytes();
  EXPECT_TRUE(absl::IsOutOfRange(node_.volume().Write(end - 512, data.span(), false)));
  EXPECT_TRUE(absl::IsOutOfRange(node_.volume().Trim(end, 1, false)));
  EXPECT_EQ(node_.volume().Metrics().dirty_bytes, 0U);
}

// A field that AddMetrics forgets is lost on nodes with several groups: fill each with something.
TEST(AddMetricsTest, KnowsEveryField) {
  constexpr size_t kKnownBytes =
      4 * sizeof(OpCounters) + 37 * 8 + sizeof(std::vector<DeviceMetrics>);
  EXPECT_EQ(sizeof(VolumeMetrics), kKnownBytes)
      << "VolumeMetrics has changed: AddMetrics must know the new field, then this number follows";
}

// Requests inside a stripe, across stripes and to all groups, many in flight.
TEST(StripedVolumeTest, RandomRequestsInFlightEqualTheModel) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    StripedTestNode node(2 + seed % 2, seed);
    node.config().background_threads = true;  // several threads wait for room
    ASSERT_TRUE(node.Open().ok());
    // Four stripes: a twentieth of the requests crosses a border.
    QueuePlayer player(node.volume(), 4 * StripeLayout::kStripeBytes / kBlockBytes, seed);

    player.Play(1500);

    player.VerifyAll(node.volume());
    const VolumeMetrics metrics = node.volume().Metrics();
    EXPECT_GT(metrics.write.ops, 0U);
    EXPECT_EQ(metrics.write.ops, metrics.write.latency.count());
  }
}

}  // namespace
}  // namespace ebb::storage
