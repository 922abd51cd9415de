#include "storage-backend/volume/node_devices.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/log/cache_log.h"

namespace ebb::storage {
namespace {

constexpr std::string_view kRecordKey = "node";
constexpr uint32_t kRecordVersion = 1;

// The value of kRecordKey: docs/formats.md, "Metadata".
struct DiskRecord {
  uint32_t format_version;
  uint32_t formatting;
  Uuid uuid;
  uint64_t volume_bytes;
  uint16_t group_index;
  uint16_t group_count;  // 0 in nodes made before there were groups: 1
  uint32_t crc32c;
};
static_assert(sizeof(DiskRecord) == 40);

uint32_t RecordCrc(const DiskRecord& disk) {
  return Crc32c(std::as_bytes(std::span(&disk, 1)).first(offsetof(DiskRecord, crc32c)));
}

absl::Status CheckVolumeBytes(uint64_t volume_bytes) {
  constexpr uint64_t kVolumeBytesMax = uint64_t{16} << 40;
  if (volume_bytes == 0 || volume_bytes % kCacheBlockBytes != 0 || volume_bytes > kVolumeBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("a volume of {} bytes is not a multiple of 4096 up to 16 TiB", volume_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NodeDevices::Record> NodeDevices::ReadRecord() {
  EBB_ASSIGN_OR_RETURN(const auto value, metadata_->Get(Table::kNode, kRecordKey));
  if (!value.has_value()) return Record{};
  DiskRecord disk;
  if (value->size() != sizeof disk) return absl::DataLossError("the node's record is damaged");
  std::memcpy(&disk, value->data(), sizeof disk);
  if (disk.format_version != kRecordVersion || disk.crc32c != RecordCrc(disk)) {
    return absl::DataLossError("the node's record is damaged or of another version");
  }
  return Record{
      .present = true,
      .formatting = disk.formatting != 0,
      .uuid = disk.uuid,
      .volume_bytes = disk.volume_bytes,
      .group = {.index = disk.group_index, .count = std::max<uint32_t>(disk.group_count, 1)}};
}

absl::Status NodeDevices::WriteRecord(const Record& record) {
  DiskRecord disk = {.format_version = kRecordVersion,
                     .formatting = record.formatting ? 1U : 0U,
                     .uuid = record.uuid,
                     .volume_bytes = record.volume_bytes,
                     .group_index = static_cast<uint16_t>(record.group.index),
                     .group_count = static_cast<uint16_t>(record.group.count),
                     .crc32c = 0};
  disk.crc32c = RecordCrc(disk);
  MetadataBatch batch;
  batch.Put(Table::kNode, kRecordKey,
            std::string_view(reinterpret_cast<const char*>(&disk), sizeof disk));
  return Annotate(metadata_->Commit(batch, /*durable=*/true), "node record");
}

std::vector<NodeDevices::Found> NodeDevices::ReadAll() {
  std::vector<Found> all;
  const auto add = [&](std::string name, Device* device, Superblock::Role role, uint32_t index) {
    Found found = {.name = fmt::format("{} ({})", name, device->Describe()),
                   .device = device,
                   .role = role,
                   .index = index,
                   .status = {},
                   .reading = {}};
    absl::StatusOr<SuperblockReading> reading = ReadSuperblock(*device);
    if (reading.ok()) {
      found.reading = *std::move(reading);
    } else {
      found.status = reading.status();
    }
    all.push_back(std::move(found));
  };
  add("the cache device", cache_, Superblock::Role::kCache, 0);
  for (uint32_t i = 0; i < capacity_.size(); ++i) {
    add(fmt::format("capacity device {}", i), capacity_[i], Superblock::Role::kCapacity, i);
  }
  return all;
}

NodeDevices::Stake NodeDevices::ReadStake() {
  Stake stake;
  for (const Found& one : ReadAll()) {
    if (!one.status.ok() || one.reading.blank) continue;
    stake.known = true;
    stake.dirty_bytes = std::max(stake.dirty_bytes, one.reading.superblock.dirty_bytes);
    stake.clean = stake.clean && one.reading.superblock.clean_shutdown;
  }
  return stake;
}

absl::Status NodeDevices::WithStake(const absl::Status& status, const Stake& stake) {
  if (status.ok() || absl::IsInvalidArgument(status)) return status;
  std::string text = "; nothing was changed";
  if (stake.known && stake.clean) {
    text += fmt::format("; {} bytes that are only in the cache are at stake", stake.dirty_bytes);
  } else if (stake.known) {
    text += fmt::format(
        "; the node was not closed cleanly: {} bytes or more, up to the size of the cache, are at "
        "stake",
        stake.dirty_bytes);
  }
  return absl::Status(status.code(), std::string(status.message()) + text);
}

absl::Status NodeDevices::CheckFormatted(const Record& record, const std::vector<Found>& found,
                                         uint64_t epoch) {
  const auto refuse = [&](const std::string& why) { return absl::FailedPreconditionError(why); };
  if (record.group != group_) {
    return refuse(
        fmt::format("the metadata is of group {} of {} of node {}, given as group {} of {}",
                    record.group.index + 1, record.group.count, FormatUuid(record.uuid),
                    group_.index + 1, group_.count));
  }
  for (const Found& one : found) {
    const Superblock& superblock = one.reading.superblock;
    if (one.reading.blank) {
      return refuse(
          fmt::format("{} is blank, but the node {} exists", one.name, FormatUuid(record.uuid)));
    }
    if (superblock.node_uuid != record.uuid) {
      return refuse(fmt::format("{} belongs to node {}, not to {}", one.name,
                                FormatUuid(superblock.node_uuid), FormatUuid(record.uuid)));
    }
    if (superblock.group != group_) {
      return refuse(fmt::format(
          "{} is of group {} of {} of this node, given as one of group {} of {}", one.name,
          superblock.group.index + 1, superblock.group.count, group_.index + 1, group_.count));
    }
    if (superblock.role != one.role || superblock.device_index != one.index) {
      return refuse(fmt::format("{} is really {} of this node", one.name,
                                superblock.role == Superblock::Role::kCache
                                    ? "the cache device"
                                    : fmt::format("capacity device {}", superblock.device_index)));
    }
    if (superblock.capacity_device_count != capacity_.size()) {
      return refuse(fmt::format("the node has {} capacity devices, {} were given",
                                superblock.capacity_device_count, capacity_.size()));
    }
    // A crash while a session begins leaves some devices one ahead of the record.
    if (superblock.epoch < epoch) {
      return refuse(fmt::format(
          "{} is stale: it was last part of the node in session {}, the node has had {}", one.name,
          superblock.epoch, epoch));
    }
    if (superblock.epoch > epoch + 1) {
      return refuse(
          fmt::format("the metadata is stale: it ends with session {}, {} has seen session {}",
                      epoch, one.name, superblock.epoch));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeDevices::Identity> NodeDevices::CheckOrFormat(uint64_t volume_bytes,
                                                                 uint64_t segment_bytes) {
  const absl::StatusOr<Inspection> inspection = Inspect(volume_bytes, segment_bytes);
  if (!inspection.ok()) return WithStake(inspection.status(), ReadStake());
  switch (inspection->state) {
    case Inspection::State::kNew:
      return Format(make_uuid_(), volume_bytes, segment_bytes);
    case Inspection::State::kHalfFormatted:
      return Format(inspection->identity.uuid, volume_bytes, segment_bytes);
    case Inspection::State::kFormatted:
      break;
  }
  return inspection->identity;
}

absl::StatusOr<NodeDevices::Identity> NodeDevices::Check(uint64_t volume_bytes) {
  const absl::StatusOr<Inspection> inspection = Inspect(volume_bytes, /*segment_bytes=*/0);
  if (!inspection.ok()) return WithStake(inspection.status(), ReadStake());
  if (inspection->state != Inspection::State::kFormatted) {
    return absl::FailedPreconditionError("there is no node on these devices yet");
  }
  return inspection->identity;
}

absl::StatusOr<NodeDevices::Inspection> NodeDevices::Inspect(uint64_t volume_bytes,
                                                             uint64_t segment_bytes) {
  if (capacity_.empty() || capacity_.size() > 7) {
    return absl::InvalidArgumentError(
        fmt::format("a disk group has 1 to 7 capacity devices, not {}", capacity_.size()));
  }
  EBB_ASSIGN_OR_RETURN(const Record record, ReadRecord());
  EBB_ASSIGN_OR_RETURN(const CacheLog::Tail tail, CacheLog::ReadTail(*metadata_));
  if (record.formatting) {
    const auto geometry = ChooseGeometry(cache_->size_bytes(), segment_bytes);
    const Identity begun = {.uuid = record.uuid,
                            .volume_bytes = record.volume_bytes,
                            .epoch = 0,
                            .geometry = geometry.ok() ? *geometry : LogGeometry()};
    if (geometry.ok() && record.group == group_) {
      EBB_ASSIGN_OR_RETURN(const bool half_formatted, IsHalfFormatted(begun));
      if (half_formatted) {
        return Inspection{.state = Inspection::State::kHalfFormatted, .identity = begun};
      }
    }
  }
  const std::vector<Found> found = ReadAll();
  for (const Found& one : found) EBB_RETURN_IF_ERROR(Annotate(one.status, one.name));
  if (!record.present) {
    const auto used = std::find_if(found.begin(), found.end(),
                                   [](const Found& one) { return !one.reading.blank; });
    if (used == found.end()) return Inspection();
    return absl::FailedPreconditionError(
        fmt::format("the metadata is new, but {} belongs to node {}", used->name,
                    FormatUuid(used->reading.superblock.node_uuid)));
  }
  EBB_RETURN_IF_ERROR(CheckFormatted(record, found, tail.epoch));
  if (volume_bytes != 0 && volume_bytes != record.volume_bytes) {
    return absl::FailedPreconditionError(
        fmt::format("the volume has {} bytes, not {}", record.volume_bytes, volume_bytes));
  }
  EBB_ASSIGN_OR_RETURN(
      const LogGeometry geometry,
      ChooseGeometry(cache_->size_bytes(), found[0].reading.superblock.segment_bytes));
  return Inspection{.state = Inspection::State::kFormatted,
                    .identity = {.uuid = record.uuid,
                                 .volume_bytes = record.volume_bytes,
                                 .epoch = tail.epoch,
                                 .geometry = geometry}};
}

absl::StatusOr<bool> NodeDevices::IsHalfFormatted(const Identity& identity) {
  for (uint32_t number = 0; number <= capacity_.size(); ++number) {
    Device& device = number == 0 ? *cache_ : *capacity_[number - 1];
    EBB_ASSIGN_OR_RETURN(
        const bool only_ours,
        HoldsOnlyPartsOf(device, SuperblockOf(number, identity, 0, 0, /*clean=*/true)));
    if (!only_ours) return false;
  }
  return true;
}

// A crash in the middle leaves the mark "formatting" in the metadata, and devices that hold nothing
// but parts of their superblocks of epoch 0: the next start formats again.
absl::StatusOr<NodeDevices::Identity> NodeDevices::Format(const Uuid& uuid, uint64_t volume_bytes,
                                                          uint64_t segment_bytes) {
  EBB_RETURN_IF_ERROR(CheckVolumeBytes(volume_bytes));
  EBB_ASSIGN_OR_RETURN(const LogGeometry geometry,
                       ChooseGeometry(cache_->size_bytes(), segment_bytes));
  const Identity identity = {
      .uuid = uuid, .volume_bytes = volume_bytes, .epoch = 0, .geometry = geometry};
  Record fresh = {.present = true,
                  .formatting = true,
                  .uuid = uuid,
                  .volume_bytes = volume_bytes,
                  .group = group_};
  EBB_RETURN_IF_ERROR(WriteRecord(fresh));
  EBB_RETURN_IF_ERROR(Stamp(identity, 0, 0, /*clean=*/true));
  fresh.formatting = false;
  EBB_RETURN_IF_ERROR(WriteRecord(fresh));
  return identity;
}

Superblock NodeDevices::SuperblockOf(uint32_t number, const Identity& identity, uint64_t epoch,
                                     uint64_t dirty_bytes, bool clean) const {
  const bool is_cache = number == 0;
  // A device's own UUID follows from the node's and its number, so it never changes.
  Uuid device_uuid = GroupUuid(identity.uuid, group_.index);
  device_uuid[15] = static_cast<uint8_t>(device_uuid[15] ^ (number + 1));
  return {.node_uuid = identity.uuid,
          .device_uuid = device_uuid,
          .role = is_cache ? Superblock::Role::kCache : Superblock::Role::kCapacity,
          .device_index = is_cache ? 0 : number - 1,
          .capacity_device_count = static_cast<uint32_t>(capacity_.size()),
          .device_bytes = (is_cache ? cache_ : capacity_[number - 1])->size_bytes(),
          .segment_bytes = uint64_t{identity.geometry.segment_blocks} * kCacheBlockBytes,
          .epoch = epoch,
          .dirty_bytes = dirty_bytes,
          .clean_shutdown = clean,
          .group = group_};
}

absl::Status NodeDevices::Stamp(const Identity& identity, uint64_t epoch, uint64_t dirty_bytes,
                                bool clean) {
  for (uint32_t number = 0; number <= capacity_.size(); ++number) {
    Device& device = number == 0 ? *cache_ : *capacity_[number - 1];
    EBB_RETURN_IF_ERROR(
        Annotate(WriteSuperblock(device, SuperblockOf(number, identity, epoch, dirty_bytes, clean)),
                 number == 0 ? "cache device" : fmt::format("capacity device {}", number - 1)));
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
