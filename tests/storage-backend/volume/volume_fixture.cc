#include "tests/storage-backend/volume/volume_fixture.h"

#include <cstring>

#include "base/check.h"
#include "storage-backend/device/device_wrapper.h"
#include "storage-backend/metadata/metadata_wrapper.h"

namespace ebb::storage {
namespace {

class BorrowedDevice final : public DeviceWrapper {
 public:
  using DeviceWrapper::DeviceWrapper;
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override { return inner().MakeQueue(depth); }
};

}  // namespace

std::unique_ptr<Device> BorrowDevice(Device* device) {
  return std::make_unique<BorrowedDevice>(*device);
}

std::unique_ptr<MetadataStore> BorrowMetadata(MetadataStore* metadata) {
  return std::make_unique<MetadataWrapper>(*metadata);
}

TestNode::TestNode(const TestNodeOptions& options, Clock& clock)
    : options_(options),
      clock_(clock),
      cache_(options.cache_bytes),
      capacity_(options.capacity_bytes),
      content_(std::make_shared<FakeCapacityTier::Content>()) {
  config_.volume_bytes = options.volume_bytes;
  config_.segment_bytes = options.segment_bytes;
  config_.background_threads = options.background_threads;
  config_.setting.Set(KnobId::kReadCacheBytes, static_cast<int64_t>(options.read_cache_bytes));
}

absl::Status TestNode::Open() {
  Kill();
  VolumeParts parts;
  parts.cache = BorrowDevice(&cache_);
  parts.capacity.push_back(BorrowDevice(&capacity_));
  parts.metadata = BorrowMetadata(&metadata_);
  parts.open_tier = CapacityTier::Open;
  if (options_.fake_tier) {
    parts.open_tier = [this](std::vector<Device*>, MetadataStore*, const Uuid&) {
      return absl::StatusOr<std::unique_ptr<CapacityTier>>(
          std::make_unique<FakeCapacityTier>(content_));
    };
  }
  auto volume = VolumeImpl::Open(config_, std::move(parts), clock_, nullptr);
  if (!volume.ok()) return volume.status();
  volume_ = *std::move(volume);
  return absl::OkStatus();
}

AlignedBuffer MakeBlock(uint64_t block, uint64_t version) {
  AlignedBuffer data(kBlockBytes);
  const uint64_t words[2] = {block, version};
  for (size_t i = 0; i < kBlockBytes; i += sizeof words) {
    std::memcpy(data.data() + i, words, sizeof words);
  }
  return data;
}

uint64_t VersionOf(uint64_t block, std::span<const std::byte> data) {
  uint64_t words[2];
  std::memcpy(words, data.data(), sizeof words);
  for (size_t i = 0; i < data.size(); i += sizeof words) {
    if (std::memcmp(data.data() + i, words, sizeof words) != 0) return ~uint64_t{0};
  }
  if (words[0] == 0 && words[1] == 0) return 0;
  return words[0] == block ? words[1] : ~uint64_t{0};
}

}  // namespace ebb::storage
