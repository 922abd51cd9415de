// On real files with real metadata: what Usage says is what the file system says.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "storage-backend/device/superblock.h"
#include "storage-backend/device/uring_device.h"
#include "tests/storage-backend/capacity/capacity_test_util.h"

namespace ebb::storage {
namespace {

class TierFilesTest : public ::testing::Test {
 protected:
  TierFilesTest() : folder_(testing::TempDir() + "/tier_files_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~TierFilesTest() override {
    tier_.reset();
    devices_.clear();
    metadata_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Create(size_t devices, uint64_t bytes) {
    for (size_t i = 0; i < devices; ++i) {
      const std::string path = folder_ + "/capacity" + std::to_string(i);
      ASSERT_TRUE(CreateDeviceFile(path, bytes).ok());
      auto device = UringDevice::Open(path);
      ASSERT_TRUE(device.ok()) << device.status();
      Superblock superblock;
      superblock.role = Superblock::Role::kCapacity;
      superblock.device_bytes = bytes;
      ASSERT_TRUE(WriteSuperblock(**device, superblock).ok());
    }
    Open(devices);
  }

  void Open(size_t devices) {
    tier_.reset();
    devices_.clear();
    metadata_.reset();
    auto metadata = OpenRocksMetadata(folder_ + "/metadata");
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    metadata_ = *std::move(metadata);
    std::vector<Device*> borrowed;
    for (size_t i = 0; i < devices; ++i) {
      auto device = UringDevice::Open(folder_ + "/capacity" + std::to_string(i));
      ASSERT_TRUE(device.ok()) << device.status();
      devices_.push_back(*std::move(device));
      borrowed.push_back(devices_.back().get());
    }
    auto tier = CapacityTier::Open(borrowed, metadata_.get());
    ASSERT_TRUE(tier.ok()) << tier.status();
    tier_ = *std::move(tier);
  }

  absl::Status Store(const Model& model, const StoreOptions& options) {
    AlignedBuffer data(model.size() * kTestBlock);
    std::vector<StoreBlock> blocks;
    for (const auto& [block, content] : model) {
      std::byte* const at = data.data() + blocks.size() * kTestBlock;
      Fill(content, at);
      blocks.push_back({.block = block, .data = at, .crc32c = Crc32c({at, kTestBlock})});
    }
    return tier_->Store(blocks, options, nullptr);
  }

  void ExpectAgreement() {
    uint64_t allocated = 0;
    for (const auto& device : devices_) allocated += *device->AllocatedBytes();
    const auto physical = static_cast<double>(tier_->Usage().physical_bytes);
    EXPECT_NEAR(static_cast<double>(allocated) / physical, 1.0, 0.02);
  }

  std::string folder_;
  std::unique_ptr<MetadataStore> metadata_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<CapacityTier> tier_;
};

TEST_F(TierFilesTest, PhysicalBytesAreWhatTheFilesTake) {
  Create(2, 64 << 20);
  for (uint64_t first = 0; first < 6000; first += 1000) {
    ASSERT_TRUE(Store(Blocks(first, 1000, Content::kRandom, first), {.parallelism = 4}).ok());
  }
  ExpectAgreement();

  ASSERT_TRUE(Store(Blocks(0, 3000, Content::kText, 1), {.compression = Compression::kZstd1}).ok());
  ExpectAgreement();
  ASSERT_TRUE(tier_->Remove(500, 4000).ok());
  ExpectAgreement();
  while (*tier_->CompactStep()) {
  }
  ExpectAgreement();
  Open(2);
  ExpectAgreement();
  EXPECT_EQ(tier_->Check()->size(), 0u);
}

// Goal: what an abandoned batch wrote does not stay allocated for ever.
TEST_F(TierFilesTest, LeftoversOfAnAbandonedBatchAreDiscardedAtOpen) {
  Create(1, 64 << 20);
  ASSERT_TRUE(Store(Blocks(0, 100, Content::kRandom, 1), {}).ok());
  AlignedBuffer data(4000 * kTestBlock);
  std::vector<StoreBlock> blocks;
  const uint32_t crc = Crc32c({data.data(), kTestBlock});
  for (uint64_t i = 0; i < 4000; ++i) blocks.push_back({i, data.data() + i * kTestBlock, crc});
  int extents = 0;
  ASSERT_EQ(tier_->Store(blocks, {}, nullptr, [&] { return ++extents < 10; }).code(),
            absl::StatusCode::kCancelled);

  Open(1);

  ExpectAgreement();
}

}  // namespace
}  // namespace ebb::storage
