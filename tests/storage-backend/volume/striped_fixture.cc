#include "tests/storage-backend/volume/striped_fixture.h"

#include <algorithm>

#include "fmt/format.h"
#include "storage-backend/metadata/metadata_wrapper.h"
#include "tests/storage-backend/volume/volume_fixture.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kStripeBlocks = StripeLayout::kStripeBytes / kBlockBytes;
constexpr uint64_t kBorderBlocks = 10;  // on each side of a stripe's border
constexpr uint64_t kVolumeBlocks = 4 * kStripeBlocks + 37;
constexpr uint64_t kRequestBlocksMax = 16;

// A commit counts as one write, so that the power can fail in it.
class PoweredMetadata final : public MetadataWrapper {
 public:
  PoweredMetadata(MemMetadata* inner, PowerSource* power)
      : MetadataWrapper(*inner), power_(*power) {}
  absl::Status Commit(const MetadataBatch& batch, bool durable) override {
    if (power_.CountWrite() == PowerSource::Moment::kOn) return inner().Commit(batch, durable);
    return absl::UnavailableError("metadata has lost its power");
  }

 private:
  PowerSource& power_;
};

}  // namespace

StripedTestNode::StripedTestNode(size_t group_count, uint64_t seed)
    : seed_(seed), power_(std::make_shared<PowerSource>()) {
  for (size_t i = 0; i < group_count; ++i) groups_.push_back(MakeGroup(i));
  config_.volume_bytes = kVolumeBlocks * kBlockBytes;
  config_.segment_bytes = 8 * kBlockBytes;
  config_.background_threads = false;
  config_.setting.Set(KnobId::kReadCacheBytes, 1 << 20);
}

StripedTestNode::Group StripedTestNode::MakeGroup(size_t i) {
  Group group;
  group.cache = FaultyDisk::Make({.name = fmt::format("cache {}", i),
                                  .size_bytes = (2 + 8 * 12) * kBlockBytes,
                                  .seed = seed_ + i,
                                  .power = power_});
  for (size_t c = 0; c < 1 + i % 2; ++c) {
    group.capacity.push_back(FaultyDisk::Make({.name = fmt::format("capacity {} of {}", c, i),
                                               .size_bytes = 4 << 20,
                                               .seed = seed_ + 100 + 10 * i + c,
                                               .power = power_}));
  }
  group.metadata = std::make_unique<MemMetadata>();
  return group;
}

StripedTestNode::Group StripedTestNode::Replace(size_t i) {
  Kill();
  return std::exchange(groups_[i], MakeGroup(i));
}

absl::Status StripedTestNode::Open(std::vector<size_t> order) {
  Kill();
  if (order.empty()) {
    for (size_t i = 0; i < groups_.size(); ++i) order.push_back(i);
  }
  std::vector<VolumeParts> parts;
  for (const size_t i : order) {
    VolumeParts one;
    one.cache = groups_[i].cache->Open();
    for (const auto& disk : groups_[i].capacity) one.capacity.push_back(disk->Open());
    one.metadata = std::make_unique<PoweredMetadata>(groups_[i].metadata.get(), power_.get());
    one.open_tier = CapacityTier::Open;
    one.make_uuid = [seed = seed_] {
      Uuid uuid{};
      uuid[0] = static_cast<uint8_t>(seed);
      uuid[1] = static_cast<uint8_t>(seed >> 8);
      uuid[15] = 7;
      return uuid;
    };
    parts.push_back(std::move(one));
  }
  // Threads pace themselves by time that passes.
  Clock& clock = config_.background_threads ? RealClock() : clock_;
  if (parts.size() == 1) {
    auto volume = VolumeImpl::Open(config_, std::move(parts[0]), clock, nullptr);
    if (!volume.ok()) return volume.status();
    volume_ = *std::move(volume);
    return absl::OkStatus();
  }
  auto volume = StripedVolume::Open(config_, std::move(parts), clock, nullptr);
  if (!volume.ok()) return volume.status();
  volume_ = *std::move(volume);
  return absl::OkStatus();
}

void StripedTestNode::Reboot(uint64_t seed) {
  power_->Cut();
  Kill();
  power_->Restore();
  for (Group& group : groups_) {
    group.cache->Reboot(++seed);
    for (const auto& disk : group.capacity) disk->Reboot(++seed);
    group.metadata->Crash();
  }
}

StripedWorkload::StripedWorkload(StripedTestNode& node, uint64_t seed)
    : node_(node), rng_(seed), blocks_(kVolumeBlocks) {}

uint64_t StripedWorkload::PickBlock() {
  const uint64_t border = rng_.Below(5) * kStripeBlocks;
  const uint64_t block = border + rng_.Below(2 * kBorderBlocks);
  return std::min(block < kBorderBlocks ? block : block - kBorderBlocks, kVolumeBlocks - 1);
}

std::string StripedWorkload::Judge(const char* verb, const absl::Status& status) const {
  if (status.ok() || !node_.power().on()) return "";
  return fmt::format("{}: {}", verb, status.ToString());
}

std::string StripedWorkload::Run(int steps) {
  for (int step = 0; step < steps && node_.power().on(); ++step) {
    node_.clock().AdvanceNs(rng_.Below(2'000'000));
    if (std::string fault = Step(); !fault.empty()) return fault;
  }
  return "";
}

std::string StripedWorkload::Step() {
  const uint64_t block = PickBlock();
  const uint64_t count =
      1 + rng_.Below(std::min<uint64_t>(kVolumeBlocks - block, kRequestBlocksMax));
  switch (rng_.Below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return Write(block, count, rng_.Chance(0.15));
    case 4:
    case 5:
      return Verify(block, count);
    case 6:
      return Zero(block, count);
    case 7: {
      const absl::Status status = node_.volume().Flush();
      if (status.ok()) {
        for (Candidates& one : blocks_) one.versions = {one.versions.back()};
      }
      return Judge("flush", status);
    }
    case 8:
    case 9:
      return Judge("background", node_.volume().RunBackgroundStep().status());
    case 10:
      return rng_.Chance(0.3) ? Judge("drain", node_.volume().Drain(nullptr)) : "";
    default:
      return rng_.Chance(0.2) ? Reopen() : "";
  }
}

std::string StripedWorkload::Write(uint64_t block, uint64_t count, bool fua) {
  AlignedBuffer data(count * kBlockBytes);
  for (uint64_t i = 0; i < count; ++i) {
    const AlignedBuffer one = MakeBlock(block + i, ++version_);
    std::copy_n(one.data(), kBlockBytes, data.data() + i * kBlockBytes);
    blocks_[block + i].versions.push_back(version_);
  }
  const absl::Status status = node_.volume().Write(block * kBlockBytes, data.span(), fua);
  for (uint64_t i = 0; status.ok() && fua && i < count; ++i) {
    blocks_[block + i].versions = {blocks_[block + i].versions.back()};
  }
  return Judge("write", status);
}

std::string StripedWorkload::Zero(uint64_t block, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) blocks_[block + i].versions.push_back(0);
  return Judge("zero",
               rng_.Chance(0.5)
                   ? node_.volume().Trim(block * kBlockBytes, count * kBlockBytes, false)
                   : node_.volume().WriteZeroes(block * kBlockBytes, count * kBlockBytes, false));
}

std::string StripedWorkload::Verify(uint64_t block, uint64_t count) {
  std::vector<std::byte> data(count * kBlockBytes);
  const absl::Status status = node_.volume().Read(block * kBlockBytes, data);
  if (!status.ok()) return Judge("read", status);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t found =
        VersionOf(block + i, std::span(data).subspan(i * kBlockBytes, kBlockBytes));
    if (found != blocks_[block + i].versions.back()) {
      return fmt::format("block {} reads as version {}, not {}", block + i, found,
                         blocks_[block + i].versions.back());
    }
  }
  return "";
}

std::string StripedWorkload::VerifyAll() {
  constexpr uint64_t kAtOnce = 64;
  for (uint64_t block = 0; block < kVolumeBlocks; block += kAtOnce) {
    std::string fault = Verify(block, std::min(kAtOnce, kVolumeBlocks - block));
    if (!fault.empty()) return fault;
  }
  return "";
}

std::string StripedWorkload::Reopen() {
  if (rng_.Chance(0.5)) {
    const absl::Status closed = node_.volume().Close();
    if (!closed.ok()) return Judge("close", closed);
    for (Candidates& one : blocks_) one.versions = {one.versions.back()};
  }
  return Recover();
}

std::string StripedWorkload::Recover() {
  if (const absl::Status opened = node_.Open(); !opened.ok()) return Judge("open", opened);
  std::vector<std::byte> data(kBlockBytes);
  for (uint64_t block = 0; block < kVolumeBlocks; ++block) {
    // Only around the borders was anything ever written.
    if (blocks_[block].versions == std::vector<uint64_t>{0}) continue;
    const absl::Status read = node_.volume().Read(block * kBlockBytes, data);
    if (!read.ok()) return Judge("read after recovery", read);
    std::vector<uint64_t>& versions = blocks_[block].versions;
    const uint64_t found = VersionOf(block, data);
    if (std::find(versions.begin(), versions.end(), found) == versions.end()) {
      return fmt::format("block {} came back as version {}, not one of {}", block, found,
                         fmt::join(versions, ","));
    }
    versions = {found};
  }
  return "";
}

}  // namespace ebb::storage
