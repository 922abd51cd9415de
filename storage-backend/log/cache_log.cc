#include "storage-backend/log/cache_log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "fmt/format.h"
#include "storage-backend/log/log_recovery.h"

namespace ebb::storage {
namespace {

constexpr std::string_view kTailKey = "cache_log";

// The value of kTailKey: docs/formats.md, "Cache device".
struct DiskTail {
  uint32_t format_version;
  uint32_t crc32c;  // of the four numbers
  std::array<uint64_t, 4> numbers;
};
constexpr uint32_t kTailVersion = 1;

uint32_t TailCrc(const DiskTail& disk) { return Crc32c(std::as_bytes(std::span(disk.numbers))); }

}  // namespace

absl::StatusOr<CacheLog::Tail> CacheLog::ReadTail(MetadataStore& metadata) {
  EBB_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                       metadata.Get(Table::kNode, kTailKey));
  if (!value.has_value()) return Tail{};
  DiskTail disk;
  if (value->size() != sizeof disk) return absl::DataLossError("the cache log's tail is damaged");
  std::memcpy(&disk, value->data(), sizeof disk);
  if (disk.format_version != kTailVersion || disk.crc32c != TailCrc(disk)) {
    return absl::DataLossError("the cache log's tail is damaged or of another version");
  }
  return Tail{.epoch = disk.numbers[0],
              .replay_from = disk.numbers[1],
              .dirty_from = disk.numbers[2],
              .durable_below = disk.numbers[3]};
}

absl::Status CacheLog::WriteTail(MetadataStore& metadata, const Tail& tail) {
  DiskTail disk = {.format_version = kTailVersion,
                   .crc32c = 0,
                   .numbers = {tail.epoch, tail.replay_from, tail.dirty_from, tail.durable_below}};
  disk.crc32c = TailCrc(disk);
  MetadataBatch batch;
  batch.Put(Table::kNode, kTailKey,
            std::string_view(reinterpret_cast<const char*>(&disk), sizeof disk));
  return Annotate(metadata.Commit(batch, /*durable=*/true), "cache log tail");
}

CacheLog::CacheLog(Options options)
    : options_(std::move(options)), map_(options_.geometry), lost_(options_.metadata) {
  const uint32_t payload = std::min(kGroupBlocksMax, options_.geometry.segment_blocks - 1);
  const size_t group_bytes = size_t{payload + 1} * kCacheBlockBytes;
  buffers_ = AlignedBuffer(options_.group_buffers * group_bytes);
  mirrors_.resize(options_.group_buffers);
  for (size_t i = 0; i < options_.group_buffers; ++i) {
    auto group = std::make_unique<Group>();
    group->buffer = buffers_.span(i * group_bytes, group_bytes);
    group->queue = options_.device->MakeQueue(1);
    group->queue->RegisterMemory(group->buffer);
    groups_.push_back(std::move(group));
  }
  groups_in_turn_ = std::min(kGroupsInTurnMin, options_.group_buffers);
  SetReadShare(0);
}

absl::StatusOr<std::unique_ptr<CacheLog>> CacheLog::Open(
    Options options, const std::function<void(double)>& progress) {
  EBB_ASSIGN_OR_RETURN(Tail tail, ReadTail(*options.metadata));
  auto log = std::unique_ptr<CacheLog>(new CacheLog(std::move(options)));
  log->tail_ = tail;
  EBB_RETURN_IF_ERROR(log->lost_.Load());
  EBB_RETURN_IF_ERROR(LogRecovery(*log).Run(progress));
  return log;
}

CacheLog::~CacheLog() {
  // The device may still read the buffers of groups in flight.
  Lock lock(mutex_);
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    while (groups_[i]->state == GroupState::kInFlight) ReapGroup(lock, i, /*wait=*/true);
  }
}

absl::StatusOr<CacheLog::Reservation> CacheLog::Reserve(Lock& lock, uint32_t slots,
                                                        uint32_t entries, uint64_t now_ns) {
  if (!OpenGroup(lock, std::min(slots, 1U), now_ns)) {
    if (!fence_.ok()) return fence_;
    return Reservation{};
  }
  Group& group = *groups_[open_];
  const uint32_t count = std::min({entries, kGroupEntriesMax - group.entry_count,
                                   slots == 0 ? entries : group.capacity - mirrors_[open_].used});
  EBB_CHECK(count > 0);
  const Reservation reservation = {.group = open_,
                                   .first_slot = mirrors_[open_].used,
                                   .first_entry = group.entry_count,
                                   .count = count,
                                   .sequence = group.sequence};
  group.entry_count += count;
  if (slots != 0) mirrors_[open_].used += count;
  ++group.pending;
  const bool full = group.entry_count == kGroupEntriesMax || mirrors_[open_].used == group.capacity;
  if (full) CloseOpenLocked();
  return reservation;
}

void CacheLog::CommitLocked(const Reservation& reservation) {
  Group& group = *groups_[reservation.group];
  if (--group.pending == 0 && group.state == GroupState::kClosed) {
    MarkReadyLocked(reservation.group);
  }
  dirty_blocks_.store(map_.dirty_blocks(), std::memory_order_relaxed);
  overlay_ranges_.store(map_.overlay().size(), std::memory_order_relaxed);
}

absl::StatusOr<CacheLog::Appended> CacheLog::Append(uint64_t first_block,
                                                    std::span<const std::byte> data,
                                                    uint64_t now_ns, const uint32_t* generation) {
  const size_t generations = generation == nullptr ? 0 : 1;
  return AppendData(EntryKind::kData, first_block, data, {generation, generations}, now_ns);
}

void CacheLog::AppendCopies(uint64_t first_block, std::span<const std::byte> data,
                            std::span<const uint32_t> generations, uint64_t now_ns) {
  while (!data.empty()) {
    // An error or a full log only means that there is no copy.
    const auto appended = AppendData(EntryKind::kCopy, first_block, data, generations, now_ns);
    if (!appended.ok() || appended->count == 0) return;
    first_block += appended->count;
    data = data.subspan(size_t{appended->count} * kCacheBlockBytes);
    generations = generations.subspan(appended->count);
  }
}

absl::StatusOr<CacheLog::Appended> CacheLog::AppendData(EntryKind kind, uint64_t first_block,
                                                        std::span<const std::byte> data,
                                                        std::span<const uint32_t> generations,
                                                        uint64_t now_ns) {
  const auto wanted =
      static_cast<uint32_t>(std::min<size_t>(data.size() / kCacheBlockBytes, kGroupBlocksMax));
  Lock lock(mutex_);
  EBB_ASSIGN_OR_RETURN(const Reservation reservation, Reserve(lock, wanted, wanted, now_ns));
  if (reservation.count == 0) {
    SubmitReady(lock);
    return Appended{};
  }
  const uint64_t order = LogOrder(reservation.sequence, reservation.first_entry);
  if (kind == EntryKind::kData) pending_writes_.push_back({order, first_block, reservation.count});
  lock.unlock();
  // The group cannot be submitted or reused while our reservation is pending, so its memory is ours
  // without the lock.
  Group& group = *groups_[reservation.group];
  std::array<uint32_t, kGroupBlocksMax> crcs;
  for (uint32_t i = 0; i < reservation.count; ++i) {
    map_.Prefetch(first_block + i);
    std::byte* slot =
        group.buffer.data() + size_t{1 + reservation.first_slot + i} * kCacheBlockBytes;
    crcs[i] = Crc32cCopy(slot, data.subspan(size_t{i} * kCacheBlockBytes, kCacheBlockBytes));
    EncodeEntry(group.buffer, reservation.first_entry + i,
                {.kind = kind, .crc32c = crcs[i], .block = first_block + i, .count = 1});
  }
  lock.lock();
  if (kind == EntryKind::kData) {
    std::erase_if(pending_writes_, [&](const PendingWrite& one) { return one.order == order; });
  }
  const bool whole = PutReservedLocked(reservation, kind, first_block,
                                       std::span(crcs).first(reservation.count), generations);
  CommitLocked(reservation);
  if (!ready_.empty()) SubmitReady(lock);
  if (!whole && kind == EntryKind::kData) {
    return absl::AbortedError("the block changed meanwhile");
  }
  return Appended{.count = reservation.count, .sequence = reservation.sequence};
}

bool CacheLog::IsWritePending(uint64_t block, uint64_t before_order) const {
  return std::any_of(pending_writes_.begin(), pending_writes_.end(), [&](const PendingWrite& one) {
    return one.order < before_order && block - one.first_block < one.count;
  });
}

bool CacheLog::PutReservedLocked(const Reservation& reservation, EntryKind kind,
                                 uint64_t first_block, std::span<const uint32_t> crcs,
                                 std::span<const uint32_t> generations) {
  Group& group = *groups_[reservation.group];
  const bool copies = kind == EntryKind::kCopy;
  bool whole = true;
  for (uint32_t i = 0; i < reservation.count; ++i) {
    const uint64_t block = first_block + i;
    const uint64_t order = LogOrder(reservation.sequence, reservation.first_entry + i);
    const bool changed = !generations.empty() &&
                         (map_.Generation(block) != generations[i] || IsWritePending(block, order));
    // A copy must not stand in front of anything that is newer than the capacity tier.
    const bool shadows = copies && (map_.Find(block) != kNoCacheBlock || map_.IsZeroed(block));
    if (changed || shadows) {
      EncodeEntry(group.buffer, reservation.first_entry + i,
                  {.kind = EntryKind::kVoid, .crc32c = 0, .block = 0, .count = 1});
      whole = false;
      continue;
    }
    map_.Put(block, mirrors_[reservation.group].header_block + 1 + reservation.first_slot + i,
             crcs[i], order, /*dirty=*/!copies);
  }
  if (copies) {
    copied_blocks_ += reservation.count;
  } else {
    appended_blocks_.fetch_add(reservation.count, std::memory_order_relaxed);
    if (options_.on_change) options_.on_change(first_block, reservation.count);
  }
  return whole;
}

absl::StatusOr<CacheLog::Appended> CacheLog::AppendRange(EntryKind kind, uint64_t first_block,
                                                         uint64_t count, uint64_t now_ns) {
  Lock lock(mutex_);
  EBB_ASSIGN_OR_RETURN(const Reservation reservation, Reserve(lock, 0, 1, now_ns));
  if (reservation.count == 0) {
    SubmitReady(lock);
    return Appended{};
  }
  EncodeEntry(groups_[reservation.group]->buffer, reservation.first_entry,
              {.kind = kind, .crc32c = 0, .block = first_block, .count = count});
  map_.PutRange(first_block, count, LogOrder(reservation.sequence, reservation.first_entry),
                /*pending=*/true);
  if (options_.on_change) options_.on_change(first_block, count);
  CommitLocked(reservation);
  SubmitReady(lock);
  return Appended{.count = 1, .sequence = reservation.sequence};
}

CacheLog::Place CacheLog::FindLocked(uint64_t block) {
  const uint32_t cache_block = map_.Find(block);
  if (cache_block == kNoCacheBlock) {
    if (map_.IsZeroed(block)) return {.kind = Place::Kind::kZeroes};
    const bool lost = !lost_.empty() && lost_.Contains(block);
    return {.kind = lost ? Place::Kind::kLost : Place::Kind::kAbsent};
  }
  Place place = {
      .kind = Place::Kind::kDevice, .crc32c = map_.Crc(cache_block), .cache_block = cache_block};
  for (uint32_t i = 0; i < mirrors_.size(); ++i) {
    const Mirror mirror = mirrors_[i];
    // One unsigned comparison for header_block < cache_block <= header_block + used.
    if (cache_block - mirror.header_block - 1 >= mirror.used) continue;
    Group& group = *groups_[i];
    group.pins.fetch_add(1, std::memory_order_relaxed);
    place.kind = Place::Kind::kBuffer;
    place.pin = i;
    place.data = group.buffer.data() + size_t{cache_block - mirror.header_block} * kCacheBlockBytes;
    return place;
  }
  place.pin = map_.geometry().SegmentOf(cache_block);
  map_.Pin(place.pin);
  return place;
}

CacheLog::Place CacheLog::FindNextLocked(const Place& before, uint64_t block) {
  const bool has_place = before.kind == Place::Kind::kDevice || before.kind == Place::Kind::kBuffer;
  const uint32_t cache_block = before.cache_block + 1;
  if (!has_place || !map_.IsAt(block, cache_block)) return FindLocked(block);
  // Between two groups, and two segments, is a header: the neighbour is of the same ones.
  Place place = before;
  place.crc32c = map_.Crc(cache_block);
  place.cache_block = cache_block;
  if (place.kind == Place::Kind::kBuffer) {
    place.data += kCacheBlockBytes;
    groups_[place.pin]->pins.fetch_add(1, std::memory_order_relaxed);
  } else {
    map_.Pin(place.pin);
  }
  return place;
}

void CacheLog::Unpin(const Place& place) {
  if (place.kind == Place::Kind::kBuffer) {
    groups_[place.pin]->pins.fetch_sub(1, std::memory_order_release);
  } else if (place.kind == Place::Kind::kDevice) {
    map_.Unpin(place.pin);
  }
}

void CacheLog::SetReadShare(double share) {
  Lock lock(mutex_);
  const auto total = map_.geometry().segment_count;
  // Three segments at least stay for writes: one being filled, one being destaged, one in reserve.
  constexpr uint32_t kWriteSegmentsMin = 3;
  auto kept = static_cast<uint32_t>(share * total);
  kept = std::min(kept, total - kWriteSegmentsMin - 1);
  // One segment is neither: it lets a segment be opened while the oldest clean one is released.
  const uint32_t write_segments = total - std::max(kept, 1U);
  clean_segments_kept_ = kept;
  map_.SetWriteSegmentLimit(write_segments);
  write_space_bytes_.store(uint64_t{write_segments} * map_.geometry().segment_blocks *
                           kCacheBlockBytes);
  UpdateFillLocked();
  space_changed_.notify_all();
}

void CacheLog::WaitForSpace() {
  Lock lock(mutex_);
  if (map_.CanOpenSegment() || !fence_.ok()) return;
  space_changed_.wait_for(lock, std::chrono::milliseconds(20));
}

absl::Status CacheLog::Fence() {
  Lock lock(mutex_);
  return fence_;
}

CacheLog::Usage CacheLog::GetUsageLocked() {
  return {.dirty_blocks = map_.dirty_blocks(),
          .live_blocks = map_.live_blocks(),
          .coalesced_blocks = map_.coalesced_blocks(),
          .appended_blocks = appended_blocks(),
          .copied_blocks = copied_blocks_,
          .written_bytes = written_bytes_,
          .free_segments = map_.free_count(),
          .overlay_ranges = map_.overlay().size(),
          .lost_blocks = lost_.size(),
          .memory_bytes = map_.memory_bytes() + buffers_.size(),
          .fill = fill()};
}

}  // namespace ebb::storage
