// A volume over devices in memory that outlive it, so that a test can close, kill and reopen it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "storage-backend/device/mem_device.h"
#include "storage-backend/metadata/mem_metadata.h"
#include "storage-backend/volume/volume_impl.h"
#include "tests/storage-backend/volume/fake_capacity_tier.h"

namespace ebb::storage {

// Hands everything on to a device or store that somebody else owns.
std::unique_ptr<Device> BorrowDevice(Device* device);
std::unique_ptr<MetadataStore> BorrowMetadata(MetadataStore* metadata);

struct TestNodeOptions {
  uint64_t volume_bytes = 4 << 20;
  uint64_t cache_bytes = (2 + 16 * 16) * 4096;
  uint64_t segment_bytes = 16 * 4096;
  uint64_t capacity_bytes = 16 << 20;
  bool fake_tier = true;
  bool background_threads = false;
  uint64_t read_cache_bytes = 2 << 20;
};

class TestNode {
 public:
  explicit TestNode(const TestNodeOptions& options, Clock& clock);

  // Opens or reopens; a volume that is still there is destroyed without Close, as a kill does.
  absl::Status Open();
  void Kill() { volume_.reset(); }
  Volume& volume() { return *volume_; }
  MemDevice& cache() { return cache_; }
  MemDevice& capacity() { return capacity_; }
  MemMetadata& metadata() { return metadata_; }
  FakeCapacityTier::Content& content() { return *content_; }
  VolumeConfig& config() { return config_; }

 private:
  TestNodeOptions options_;
  Clock& clock_;
  MemDevice cache_;
  MemDevice capacity_;
  MemMetadata metadata_;
  std::shared_ptr<FakeCapacityTier::Content> content_;
  VolumeConfig config_;
  std::unique_ptr<Volume> volume_;
};

// 4 KiB that tell their block and version.
AlignedBuffer MakeBlock(uint64_t block, uint64_t version);
// The inverse: the version, 0 for zeroes; ~0 when it is another block's or torn.
uint64_t VersionOf(uint64_t block, std::span<const std::byte> data);

}  // namespace ebb::storage
