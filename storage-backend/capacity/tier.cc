#include "storage-backend/capacity/tier.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"

namespace ebb::storage {
namespace {

constexpr size_t kCapacityDevicesMax = 7;
constexpr uint64_t kCachedUnitsMax = 32 << 10;
constexpr uint64_t kTypicalUnitBytes = 32 << 10;
constexpr size_t kRemovePagesPerCommit = 64;
constexpr std::chrono::microseconds kReaderPoll{100};

// Small devices do not fill the largest cache.
size_t CachedUnits(const FormatRecord& format) {
  uint64_t bytes = 0;
  for (const uint64_t device_bytes : format.device_bytes) bytes += device_bytes;
  return std::min(bytes / kTypicalUnitBytes, kCachedUnitsMax);
}

std::vector<uint64_t> SizesOf(const std::vector<Device*>& devices) {
  std::vector<uint64_t> sizes;
  for (const Device* device : devices) sizes.push_back(device->size_bytes());
  return sizes;
}

absl::Status CheckFormat(const FormatRecord& format, const std::vector<Device*>& devices,
                         const Uuid& node_uuid) {
  if (format.node_uuid != node_uuid) {
    return absl::FailedPreconditionError(
        absl::StrCat("capacity: the metadata belongs to node ", FormatUuid(format.node_uuid),
                     ", the devices to node ", FormatUuid(node_uuid)));
  }
  if (format.device_bytes.size() != devices.size()) {
    return absl::FailedPreconditionError(absl::StrCat("capacity: the metadata describes ",
                                                      format.device_bytes.size(),
                                                      " capacity devices, not ", devices.size()));
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    if (format.device_bytes[i] == devices[i]->size_bytes()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "capacity: device ", i, " (", devices[i]->Describe(), ") has ", devices[i]->size_bytes(),
        " bytes, the metadata says ", format.device_bytes[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<FormatRecord> Format(const std::vector<Device*>& devices, MetadataStore& metadata,
                                    const Uuid& node_uuid) {
  FormatRecord format{.node_uuid = node_uuid, .segment_bytes = 0, .device_bytes = SizesOf(devices)};
  const uint64_t smallest =
      *std::min_element(format.device_bytes.begin(), format.device_bytes.end());
  format.segment_bytes = static_cast<uint32_t>(CapacitySegmentBytes(smallest));
  const CapacityLayout layout{format.segment_bytes};
  uint64_t segments = 0;
  for (const uint64_t bytes : format.device_bytes) segments += layout.SegmentCount(bytes);
  const uint64_t needed = CapacityLayout::ReservedSegments(segments, devices.size()) + 1;
  if (segments < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity: the devices are too small: ", segments, " segments of ",
                     FormatBytes(format.segment_bytes), " fit, at least ", needed, " are needed"));
  }
  MetadataBatch batch;
  batch.Put(Table::kNode, kFormatKey, EncodeFormat(format));
  batch.Put(Table::kNode, kTotalsKey, EncodeTotals(TotalsRecord()));
  EBB_RETURN_IF_ERROR(metadata.Commit(batch, /*durable=*/true));
  return format;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CapacityTier>> CapacityTier::Open(std::vector<Device*> devices,
                                                                 MetadataStore* metadata,
                                                                 const Uuid& node_uuid) {
  return OpenTuned(std::move(devices), metadata, node_uuid, CapacityTuning());
}

absl::StatusOr<std::unique_ptr<CapacityTier>> CapacityTier::OpenTuned(
    std::vector<Device*> devices, MetadataStore* metadata, const Uuid& node_uuid,
    const CapacityTuning& tuning) {
  if (devices.empty() || devices.size() > kCapacityDevicesMax) {
    return absl::InvalidArgumentError(absl::StrCat("capacity: ", devices.size(), " devices; 1 to ",
                                                   kCapacityDevicesMax, " are possible"));
  }
  EBB_ASSIGN_OR_RETURN(const auto format_value, metadata->Get(Table::kNode, kFormatKey));
  EBB_ASSIGN_OR_RETURN(const auto totals_value, metadata->Get(Table::kNode, kTotalsKey));
  FormatRecord format;
  TotalsRecord totals;
  if (!format_value.has_value()) {
    EBB_ASSIGN_OR_RETURN(format, Format(devices, *metadata, node_uuid));
  } else {
    EBB_ASSIGN_OR_RETURN(format, DecodeFormat(*format_value));
    EBB_RETURN_IF_ERROR(CheckFormat(format, devices, node_uuid));
    if (!totals_value.has_value()) {
      return absl::DataLossError("metadata: the capacity tier's totals are missing");
    }
    EBB_ASSIGN_OR_RETURN(totals, DecodeTotals(*totals_value));
  }
  auto tier =
      std::make_unique<Tier>(std::move(devices), metadata, std::move(format), totals, tuning);
  EBB_RETURN_IF_ERROR(tier->Load());
  return std::unique_ptr<CapacityTier>(std::move(tier));
}

Tier::Tier(std::vector<Device*> devices, MetadataStore* metadata, FormatRecord format,
           TotalsRecord totals, const CapacityTuning& tuning)
    : devices_(std::move(devices)),
      metadata_(metadata),
      format_(std::move(format)),
      layout_{format_.segment_bytes},
      tuning_(tuning),
      map_(*metadata, tuning.map_cache_bytes),
      cache_(CachedUnits(format_)),
      totals_(totals),
      journal_(totals.journal_first, totals.journal_next),
      segments_(layout_, format_.device_bytes),
      writer_(devices_, layout_.ExtentBytesMax()),
      pool_(kUnitBlocksMax * kCapacityBlockBytes),
      raw_unit_(kUnitBlocksMax * kCapacityBlockBytes),
      stored_unit_(kUnitBlocksMax * kCapacityBlockBytes) {}

absl::Status Tier::Load() {
  std::lock_guard lock(change_mutex_);
  EBB_RETURN_IF_ERROR(LoadSegments());
  DiscardLeftovers();
  PublishUsage();
  return absl::OkStatus();
}

absl::Status Tier::LoadSegments() {
  struct Newest {
    SegmentRecord record;
    uint64_t dirty_since = 0;
  };
  std::map<SegmentId, Newest> newest;
  absl::Status decoded;
  EBB_RETURN_IF_ERROR(
      metadata_->Scan(Table::kSegments, "", "", [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<SegmentId> id = ParseSegmentKey(key);
        if (!id.ok()) {
          decoded = id.status();
          return false;
        }
        const absl::StatusOr<SegmentRecord> record = DecodeSegment(*id, value);
        decoded = record.status();
        if (record.ok()) newest[*id].record = *record;
        return record.ok();
      }));
  EBB_RETURN_IF_ERROR(decoded);
  // In the order in which they became dirty, as the table wants them.
  std::vector<SegmentId> dirty;
  EBB_RETURN_IF_ERROR(
      journal_.Replay(*metadata_, [&](uint64_t sequence, const JournalRecord& record) {
        for (const SegmentChange& change : record.segments) {
          Newest& segment = newest[change.id];
          segment.record = change.record;
          if (segment.dirty_since == 0) {
            segment.dirty_since = sequence;
            dirty.push_back(change.id);
          }
        }
        return ReplayMap(record.blocks, sequence);
      }));
  for (const SegmentId id : dirty) {
    EBB_RETURN_IF_ERROR(segments_.Load(id, newest[id].record, newest[id].dirty_since));
  }
  for (const auto& [id, segment] : newest) {
    if (segment.dirty_since == 0) EBB_RETURN_IF_ERROR(segments_.Load(id, segment.record));
  }
  return absl::OkStatus();
}

absl::Status Tier::ReplayMap(std::span<const MapChange> changes, uint64_t sequence) {
  std::vector<uint64_t> blocks;
  blocks.reserve(changes.size());
  for (const MapChange& change : changes) blocks.push_back(change.block);
  std::vector<MapEntry> entries(blocks.size());
  EBB_RETURN_IF_ERROR(map_.Hold(blocks, entries));
  map_.Apply(changes, sequence);
  return absl::OkStatus();
}

// A batch that a crash cut short has written to segments that are free now, or behind the written
// part of open ones. Files should not keep that; devices that are wholly allocated do not care.
void Tier::DiscardLeftovers() {
  for (size_t i = 0; i < devices_.size(); ++i) {
    const auto device = static_cast<uint8_t>(i);
    uint64_t used = kSuperblocksBytes;
    std::vector<std::pair<uint64_t, uint64_t>> tails;
    segments_.ForEachUsed([&](SegmentId id, const SegmentRecord& record) {
      if (id.device != device) return;
      used += record.written_bytes;
      if (record.written_bytes == layout_.segment_bytes) return;
      tails.emplace_back(layout_.SegmentOffset(id.segment) + record.written_bytes,
                         layout_.segment_bytes - record.written_bytes);
    });
    const absl::StatusOr<uint64_t> allocated = devices_[i]->AllocatedBytes();
    if (!allocated.ok() || *allocated <= used || *allocated >= devices_[i]->size_bytes()) continue;
    for (const auto& [offset, bytes] : tails) (void)devices_[i]->Discard(offset, bytes);
    for (const auto& [first, count] : segments_.FreeRuns(device)) {
      (void)devices_[i]->Discard(layout_.SegmentOffset(first), count * layout_.segment_bytes);
    }
  }
}

absl::Status Tier::CheckWritable() const { return broken_; }

std::string Tier::Place(uint8_t device, uint64_t offset) const {
  return absl::StrCat("device ", static_cast<int>(device), " (",
                      device < devices_.size() ? devices_[device]->Describe() : "unknown",
                      ") at offset ", offset);
}

uint64_t Tier::AddToJournal(MapTransaction& transaction, MetadataBatch& batch, uint64_t& first) {
  const uint64_t sequence = journal_.next();
  std::string record =
      EncodeJournal(sequence, transaction.changes(), transaction.segment_changes());
  const uint64_t bytes = record.size();
  batch.PutMoved(Table::kJournal, JournalKey(sequence), std::move(record));
  // Pages are written as they were before this change, segments as they are after it: with the
  // record that follows both come out right.
  const uint64_t below = journal_.WriteBackBelow(bytes, tuning_.journal_bytes_max);
  map_.WriteBack(below, tuning_.map_cache_bytes / 2, batch);
  segments_.WriteBack(below, batch);
  first = std::min({map_.oldest_dirty(), segments_.oldest_dirty(), sequence});
  journal_.DeleteBelow(first, batch);
  TotalsRecord& totals = transaction.totals();
  totals.journal_first = first;
  totals.journal_next = sequence + 1;
  batch.Put(Table::kNode, kTotalsKey, EncodeTotals(totals));
  return bytes;
}

absl::Status Tier::CommitChanges(MapTransaction& transaction) {
  MetadataBatch batch;
  absl::StatusOr<std::vector<SegmentId>> freed = transaction.Prepare(batch);
  if (!freed.ok()) {
    segments_.Rollback();
    return freed.status();
  }
  const uint64_t sequence = journal_.next();
  uint64_t journal_first = 0;
  const uint64_t journal_bytes = AddToJournal(transaction, batch, journal_first);
  ++change_count_;
  absl::Status status = metadata_->Commit(batch, /*durable=*/true);
  if (status.ok()) {
    segments_.WrittenBack();
    segments_.Commit(sequence);
    journal_.Committed(journal_first, journal_bytes);
    totals_ = transaction.totals();
    cache_.NewVersion();
    transaction.ForEachChangedUnit(
        [&](uint64_t unit, const UnitRecord* record) { cache_.Update(unit, record); });
    map_.WrittenBack();
    map_.Apply(transaction.changes(), sequence);
  }
  ++change_count_;
  if (!status.ok()) {
    segments_.Rollback();
    broken_ = absl::Status(
        status.code(),
        absl::StrCat(
            "capacity: no more changes until the node is opened again, because a commit of "
            "the map failed and its outcome is unknown: ",
            std::string(status.message())));
    return broken_;
  }
  const uint64_t tag = pins_.epoch();
  for (const SegmentId id : *freed) freed_.emplace_back(id, tag);
  ReleaseFreed(/*wait=*/false);
  PublishUsage();
  return absl::OkStatus();
}

void Tier::ReleaseFreed(bool wait) {
  // Tags ascend, so the released ones are a prefix.
  size_t released = 0;
  while (released < freed_.size()) {
    if (pins_.Drained(freed_[released].second)) {
      ++released;
    } else if (wait) {
      std::this_thread::sleep_for(kReaderPoll);
    } else {
      break;
    }
  }
  if (released == 0) return;
  const auto end = freed_.begin() + static_cast<ptrdiff_t>(released);
  std::sort(freed_.begin(), end);
  for (auto run = freed_.begin(); run != end;) {
    auto next = run + 1;
    while (next != end && next->first.device == run->first.device &&
           next->first.segment == (next - 1)->first.segment + 1) {
      ++next;
    }
    // A hint; a device that cannot discard keeps the old bytes until they are overwritten.
    (void)devices_[run->first.device]->Discard(
        layout_.SegmentOffset(run->first.segment),
        static_cast<uint64_t>(next - run) * layout_.segment_bytes);
    for (; run != next; ++run) segments_.Release(run->first);
  }
  freed_.erase(freed_.begin(), end);
}

void Tier::PublishUsage() {
  CapacityUsage usage;
  usage.logical_bytes = totals_.mapped_blocks * kCapacityBlockBytes;
  usage.unique_bytes = totals_.unique_blocks * kCapacityBlockBytes;
  usage.stored_bytes = totals_.stored_bytes;
  usage.physical_bytes = segments_.written_bytes() + devices_.size() * kSuperblocksBytes;
  const uint64_t segments = segments_.total_segments();
  const uint64_t promised =
      (segments - CapacityLayout::ReservedSegments(segments, devices_.size())) *
      layout_.SegmentFillBytes();
  const uint64_t live = segments_.live_bytes();
  // Worst case: each block is a raw unit of its own.
  usage.free_bytes =
      live >= promised
          ? 0
          : (promised - live) / (kCapacityBlockBytes + kUnitEntryBytes) * kCapacityBlockBytes;
  free_bytes_ = usage.free_bytes;
  std::lock_guard lock(usage_mutex_);
  usage_ = usage;
}

CapacityUsage Tier::Usage() {
  std::lock_guard lock(usage_mutex_);
  return usage_;
}

absl::Status Tier::Remove(uint64_t first_block, uint64_t count) {
  std::lock_guard lock(change_mutex_);
  EBB_RETURN_IF_ERROR(CheckWritable());
  if (count == 0) return absl::OkStatus();
  const uint64_t end = first_block + count < first_block ? UINT64_MAX : first_block + count;
  const uint64_t end_page = (end - 1) / kPageBlocks + 1;
  for (uint64_t next = first_block / kPageBlocks; next < end_page;) {
    EBB_ASSIGN_OR_RETURN(const std::vector<uint64_t> pages,
                         map_.PagesFrom(next, end_page, kRemovePagesPerCommit));
    if (pages.empty()) break;
    EBB_RETURN_IF_ERROR(RemoveFromPages(pages, first_block, end));
    next = pages.back() + 1;
  }
  return absl::OkStatus();
}

absl::Status Tier::RemoveFromPages(std::span<const uint64_t> pages, uint64_t first, uint64_t end) {
  std::vector<uint64_t> blocks;
  for (const uint64_t page : pages) {
    const uint64_t page_end = std::min(page * kPageBlocks + kPageBlocks, end);
    for (uint64_t block = std::max(page * kPageBlocks, first); block < page_end; ++block) {
      blocks.push_back(block);
    }
  }
  MapTransaction transaction(*metadata_, map_, cache_, segments_, totals_);
  EBB_ASSIGN_OR_RETURN(const std::vector<MapEntry> entries, transaction.LoadBlocks(blocks));
  for (size_t i = 0; i < blocks.size(); ++i) {
    absl::Status status = transaction.Point(blocks[i], entries[i], MapEntry());
    if (!status.ok()) {
      segments_.Rollback();
      return status;
    }
  }
  return transaction.changes().empty() ? absl::OkStatus() : CommitChanges(transaction);
}

}  // namespace ebb::storage
