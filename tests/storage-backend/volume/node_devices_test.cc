#include "storage-backend/volume/node_devices.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/metadata/mem_metadata.h"

namespace ebb::storage {
namespace {

class NodeDevicesTest : public ::testing::Test {
 protected:
  NodeDevices Devices() { return {&cache_, {&first_, &second_}, &metadata_}; }
  absl::Status Check(std::vector<Device*> capacity) {
    return NodeDevices(&cache_, std::move(capacity), &metadata_).CheckOrFormat(kMiB, 0).status();
  }
  void Format() {
    const auto identity = Devices().CheckOrFormat(kMiB, 0);
    ASSERT_TRUE(identity.ok()) << identity.status();
    identity_ = *identity;
  }
  // As a session that begins: devices, then the record of the epoch.
  void Session(uint64_t epoch) {
    ASSERT_TRUE(Devices().Stamp(identity_, epoch, 12'345, /*clean=*/true).ok());
    ASSERT_TRUE(CacheLog::WriteTail(metadata_, {.epoch = epoch}).ok());
  }

  MemDevice cache_{4 * kMiB};
  MemDevice first_{8 * kMiB};
  MemDevice second_{8 * kMiB};
  MemMetadata metadata_;
  NodeDevices::Identity identity_;
};

TEST_F(NodeDevicesTest, FormatsBlankDevicesAndKnowsThemAgain) {
  Format();

  const auto again = Devices().CheckOrFormat(0, 0);

  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->uuid, identity_.uuid);
  EXPECT_EQ(again->volume_bytes, kMiB);
}

TEST_F(NodeDevicesTest, RefusesForeignDataAndWritesNothing) {
  AlignedBuffer data(4096);
  data.data()[0] = std::byte{'x'};
  ASSERT_TRUE(first_.Write(0, data.span()).ok());

  const absl::Status status = Check({&first_, &second_});

  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(ReadSuperblock(cache_)->blank);
  EXPECT_EQ(metadata_.commits(), 0U);
}

TEST_F(NodeDevicesTest, RefusesSwappedMissingAndForeignDevices) {
  Format();
  Session(1);

  const absl::Status swapped = Check({&second_, &first_});
  EXPECT_TRUE(absl::IsFailedPrecondition(swapped)) << swapped;
  EXPECT_NE(swapped.message().find("really capacity device 1"), std::string::npos) << swapped;
  EXPECT_NE(swapped.message().find("12345 bytes"), std::string::npos) << swapped;

  EXPECT_TRUE(absl::IsFailedPrecondition(Check({&first_})));

  MemDevice blank(8 * kMiB);
  EXPECT_TRUE(absl::IsFailedPrecondition(Check({&first_, &blank})));

  MemMetadata other_metadata;
  MemDevice other_cache(4 * kMiB);
  MemDevice other(8 * kMiB);
  ASSERT_TRUE(NodeDevices(&other_cache, {&other}, &other_metadata).CheckOrFormat(kMiB, 0).ok());
  const absl::Status foreign = Check({&first_, &other});
  EXPECT_TRUE(absl::IsFailedPrecondition(foreign)) << foreign;
  EXPECT_NE(foreign.message().find("belongs to node"), std::string::npos) << foreign;
}

TEST_F(NodeDevicesTest, RefusesNewMetadataForUsedDevices) {
  Format();
  MemMetadata fresh;

  const auto status = NodeDevices(&cache_, {&first_, &second_}, &fresh).CheckOrFormat(kMiB, 0);

  EXPECT_TRUE(absl::IsFailedPrecondition(status.status())) << status.status();
  EXPECT_EQ(fresh.commits(), 0U);
}

TEST_F(NodeDevicesTest, RefusesStaleClones) {
  Format();
  Session(1);
  MemDevice clone(8 * kMiB);
  AlignedBuffer block(4096);
  for (const uint64_t offset : {uint64_t{0}, 8 * kMiB - 4096}) {
    ASSERT_TRUE(first_.Read(offset, block.span()).ok());
    ASSERT_TRUE(clone.Write(offset, block.span()).ok());
  }
  Session(2);
  EXPECT_TRUE(Check({&first_, &second_}).ok());

  const absl::Status stale = Check({&clone, &second_});
  EXPECT_TRUE(absl::IsFailedPrecondition(stale));
  EXPECT_NE(stale.message().find("stale"), std::string::npos) << stale;

  ASSERT_TRUE(CacheLog::WriteTail(metadata_, {.epoch = 0}).ok());
  EXPECT_NE(Check({&first_, &second_}).message().find("metadata is stale"), std::string::npos);
}

TEST_F(NodeDevicesTest, SessionThatBrokeOffWhileBeginningIsAccepted) {
  Format();
  Session(1);
  // The cache and the first device got the next epoch, then the power went.
  NodeDevices partial(&cache_, {&first_, &second_}, &metadata_);
  ASSERT_TRUE(NodeDevices(&cache_, {&first_}, &metadata_).Stamp(identity_, 2, 0, false).ok());
  Superblock superblock = ReadSuperblock(cache_)->superblock;
  for (Device* device : {static_cast<Device*>(&cache_), static_cast<Device*>(&first_)}) {
    superblock = ReadSuperblock(*device)->superblock;
    superblock.capacity_device_count = 2;
    ASSERT_TRUE(WriteSuperblock(*device, superblock).ok());
  }

  EXPECT_TRUE(Check({&first_, &second_}).ok());
}

TEST_F(NodeDevicesTest, FormatThatBrokeOffIsDoneAgain) {
  // After each number of commits of the format.
  metadata_.FailCommitFrom(2);
  EXPECT_FALSE(Devices().CheckOrFormat(kMiB, 0).ok());
  metadata_.FailCommitFrom(0);
  metadata_.Crash();

  EXPECT_TRUE(Devices().CheckOrFormat(kMiB, 0).ok());
  EXPECT_TRUE(Check({&first_, &second_}).ok());
}

TEST_F(NodeDevicesTest, RefusesAnotherVolumeSizeAndBadOnes) {
  EXPECT_TRUE(absl::IsInvalidArgument(Devices().CheckOrFormat(0, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Devices().CheckOrFormat(1000, 0).status()));
  Format();

  EXPECT_TRUE(absl::IsFailedPrecondition(Devices().CheckOrFormat(2 * kMiB, 0).status()));
}

}  // namespace
}  // namespace ebb::storage
