#include "storage-backend/volume/group_set.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/crc32c.h"
#include "base/status.h"
#include "fmt/format.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/volume/volume.h"

namespace ebb::storage {
namespace {

using State = NodeDevices::Inspection::State;

constexpr std::string_view kEpochsKey = "group_epochs";
constexpr uint32_t kEpochsVersion = 1;

// The value of kEpochsKey: docs/formats.md, "Metadata".
struct DiskEpochs {
  uint32_t format_version;
  uint32_t group_count;
  std::array<uint64_t, kDiskGroupsMax> epochs;
  uint32_t reserved;
  uint32_t crc32c;
};
static_assert(sizeof(DiskEpochs) == 56);

uint32_t CrcOf(const DiskEpochs& disk) {
  return Crc32c(std::as_bytes(std::span(&disk, 1)).first(offsetof(DiskEpochs, crc32c)));
}

// What a group's metadata has recorded of all groups; zeroes when the node never served.
absl::StatusOr<std::vector<uint64_t>> ReadEpochs(MetadataStore& metadata, size_t group_count) {
  EBB_ASSIGN_OR_RETURN(const auto value, metadata.Get(Table::kNode, kEpochsKey));
  if (!value.has_value()) return std::vector<uint64_t>(group_count, 0);
  DiskEpochs disk;
  if (value->size() != sizeof disk) return absl::DataLossError("the groups' epochs are damaged");
  std::memcpy(&disk, value->data(), sizeof disk);
  if (disk.format_version != kEpochsVersion || disk.crc32c != CrcOf(disk) ||
      disk.group_count != group_count) {
    return absl::DataLossError("the groups' epochs are damaged or of another version");
  }
  return std::vector<uint64_t>(disk.epochs.begin(),
                               disk.epochs.begin() + static_cast<std::ptrdiff_t>(group_count));
}

std::string GroupName(size_t group) { return fmt::format("group {}", group + 1); }

}  // namespace

uint64_t StripeLayout::BytesBefore(uint32_t group, uint64_t offset) const {
  const uint64_t row_bytes = kStripeBytes * group_count;
  const uint64_t in_row = offset % row_bytes;
  const uint64_t begin = group * kStripeBytes;
  const uint64_t partial = in_row > begin ? std::min(in_row - begin, kStripeBytes) : 0;
  return offset / row_bytes * kStripeBytes + partial;
}

absl::Status GroupSet::WithStake(const absl::Status& status) {
  NodeDevices::Stake all;
  for (Member& member : members_) {
    const NodeDevices::Stake stake = member.devices.ReadStake();
    all.known = all.known || stake.known;
    all.clean = all.clean && stake.clean;
    all.dirty_bytes += stake.dirty_bytes;
  }
  return NodeDevices::WithStake(status, all);
}

absl::StatusOr<uint64_t> GroupSet::CheckOrFormat(uint64_t volume_bytes, uint64_t segment_bytes,
                                                 const std::function<Uuid()>& make_uuid) {
  if (volume_bytes != 0 && volume_bytes < StripeLayout::kStripeBytes * members_.size()) {
    return absl::InvalidArgumentError(
        fmt::format("a volume of {} bytes is too small for {} disk groups: each takes at least {}",
                    volume_bytes, members_.size(), StripeLayout::kStripeBytes));
  }
  const absl::StatusOr<Inspections> inspections = InspectAll(volume_bytes, segment_bytes);
  if (!inspections.ok()) return WithStake(inspections.status());
  if (absl::Status status = CheckTogether(*inspections); !status.ok()) return WithStake(status);

  std::optional<Uuid> uuid;
  bool whole = true;
  for (const NodeDevices::Inspection& one : *inspections) {
    if (one.state != State::kNew) uuid = one.identity.uuid;
    whole = whole && one.state == State::kFormatted;
  }
  if (whole) {
    const absl::StatusOr<uint64_t> recorded = RecordedBytes(*inspections);
    return recorded.ok() ? recorded : WithStake(recorded.status());
  }
  if (!uuid.has_value()) uuid = make_uuid();
  for (uint32_t g = 0; g < members_.size(); ++g) {
    if ((*inspections)[g].state == State::kFormatted) continue;
    const auto formatted =
        members_[g].devices.Format(*uuid, layout_.BytesBefore(g, volume_bytes), segment_bytes);
    EBB_RETURN_IF_ERROR(Annotate(formatted.status(), GroupName(g)));
  }
  return volume_bytes;
}

absl::StatusOr<uint64_t> GroupSet::Check(uint64_t volume_bytes) {
  EBB_ASSIGN_OR_RETURN(const Inspections inspections, InspectAll(volume_bytes, 0));
  EBB_RETURN_IF_ERROR(CheckTogether(inspections));
  for (size_t g = 0; g < inspections.size(); ++g) {
    if (inspections[g].state == State::kFormatted) continue;
    return absl::FailedPreconditionError(fmt::format("{} was never made whole", GroupName(g)));
  }
  return RecordedBytes(inspections);
}

absl::StatusOr<GroupSet::Inspections> GroupSet::InspectAll(uint64_t volume_bytes,
                                                           uint64_t segment_bytes) {
  Inspections inspections;
  for (uint32_t g = 0; g < members_.size(); ++g) {
    const uint64_t group_bytes = volume_bytes == 0 ? 0 : layout_.BytesBefore(g, volume_bytes);
    const auto inspection = members_[g].devices.Inspect(group_bytes, segment_bytes);
    if (!inspection.ok()) return Annotate(inspection.status(), GroupName(g));
    inspections.push_back(*inspection);
  }
  return inspections;
}

absl::Status GroupSet::CheckTogether(const Inspections& inspections) {
  const NodeDevices::Inspection* known = nullptr;
  size_t known_group = 0;
  bool has_served = false;
  for (size_t g = 0; g < inspections.size(); ++g) {
    const NodeDevices::Inspection& one = inspections[g];
    if (one.state == State::kNew) continue;
    if (known != nullptr && one.identity.uuid != known->identity.uuid) {
      return absl::FailedPreconditionError(fmt::format(
          "{} belongs to node {}, {} to node {}", GroupName(known_group),
          FormatUuid(known->identity.uuid), GroupName(g), FormatUuid(one.identity.uuid)));
    }
    known = &one;
    known_group = g;
    has_served = has_served || one.identity.epoch > 0;
  }
  if (known == nullptr) return absl::OkStatus();
  // A first start that broke off while it formatted goes on; a node that ran has lost a group.
  for (size_t g = 0; has_served && g < inspections.size(); ++g) {
    if (inspections[g].state == State::kFormatted) continue;
    return absl::FailedPreconditionError(
        fmt::format("{} is missing: its devices and metadata are blank, but the node {} exists",
                    GroupName(g), FormatUuid(known->identity.uuid)));
  }
  return CheckNoneStale(inspections);
}

absl::Status GroupSet::CheckNoneStale(const Inspections& inspections) {
  for (size_t witness = 0; witness < members_.size(); ++witness) {
    const auto served = ReadEpochs(*members_[witness].metadata, members_.size());
    if (!served.ok()) return Annotate(served.status(), GroupName(witness));
    for (size_t g = 0; g < members_.size(); ++g) {
      if (inspections[g].identity.epoch >= (*served)[g]) continue;
      return absl::FailedPreconditionError(fmt::format(
          "{} is stale: it ends with its session {}, but {} has seen it in session {}",
          GroupName(g), inspections[g].identity.epoch, GroupName(witness), (*served)[g]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> GroupSet::RecordedBytes(const Inspections& inspections) const {
  uint64_t volume_bytes = 0;
  for (const NodeDevices::Inspection& one : inspections) volume_bytes += one.identity.volume_bytes;
  for (uint32_t g = 0; g < inspections.size(); ++g) {
    if (inspections[g].identity.volume_bytes == layout_.BytesBefore(g, volume_bytes)) continue;
    return absl::FailedPreconditionError(
        fmt::format("{} holds {} bytes of the volume, which is not its part of {}", GroupName(g),
                    inspections[g].identity.volume_bytes, volume_bytes));
  }
  return volume_bytes;
}

absl::Status GroupSet::RecordServing() {
  DiskEpochs disk{};
  disk.format_version = kEpochsVersion;
  disk.group_count = static_cast<uint32_t>(members_.size());
  for (size_t g = 0; g < members_.size(); ++g) {
    EBB_ASSIGN_OR_RETURN(const CacheLog::Tail tail, CacheLog::ReadTail(*members_[g].metadata));
    disk.epochs[g] = tail.epoch;
  }
  disk.crc32c = CrcOf(disk);
  MetadataBatch batch;
  batch.Put(Table::kNode, kEpochsKey,
            std::string_view(reinterpret_cast<const char*>(&disk), sizeof disk));
  for (size_t g = 0; g < members_.size(); ++g) {
    EBB_RETURN_IF_ERROR(
        Annotate(members_[g].metadata->Commit(batch, /*durable=*/true), GroupName(g)));
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
