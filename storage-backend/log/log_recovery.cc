#include "storage-backend/log/log_recovery.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "fmt/format.h"

namespace ebb::storage {
namespace {

constexpr size_t kHeadersAtOnce = 32;
constexpr uint32_t kWindowBlocks = 256;
// Groups smaller than this are cheaper to read through than to jump over.
constexpr uint32_t kJumpBlocks = 64;

}  // namespace

LogRecovery::LogRecovery(CacheLog& log)
    : log_(log),
      device_(*log.options_.device),
      geometry_(log.options_.geometry),
      reader_(device_, std::min(kWindowBlocks, geometry_.segment_blocks)),
      header_(kCacheBlockBytes),
      expected_(log.tail_.replay_from) {
  // What is in the capacity tier was durable, and what a session began or ended with.
  known_durable_ = std::max(log.tail_.dirty_from, log.tail_.durable_below) - 1;
}

absl::Status LogRecovery::Run(const std::function<void(double)>& progress) {
  EBB_RETURN_IF_ERROR(FindCandidates(progress));
  uint32_t replayed = 0;
  for (const Candidate* next = NextSegment(); next != nullptr; next = NextSegment()) {
    EBB_RETURN_IF_ERROR(ReplaySegment(next->segment));
    if (progress) progress(0.2 + 0.8 * ++replayed / geometry_.segment_count);
  }
  EBB_RETURN_IF_ERROR(JudgeEnd());

  log_.map_.EndReplay(log_.tail_.dirty_from);
  log_.next_sequence_ = expected_;
  log_.closed_sequence_ = expected_ - 1;
  // The caller flushes the device before the first append (it writes the superblock), which makes
  // what was read durable, wherever a dying process had left it.
  log_.durable_sequence_ = expected_ - 1;
  log_.durable_end_block_ = end_block_;
  log_.dirty_blocks_.store(log_.map_.dirty_blocks());
  log_.UpdateFillLocked();
  if (progress) progress(1);
  return absl::OkStatus();
}

std::optional<GroupHeader> LogRecovery::OurHeader(std::span<const std::byte> block,
                                                  uint32_t cache_block) {
  const absl::StatusOr<GroupHeader> header = DecodeHeader(block);
  if (!header.ok() || header->node_uuid != log_.options_.node_uuid ||
      header->header_block != cache_block || header->epoch > log_.options_.epoch) {
    return std::nullopt;
  }
  known_durable_ = std::max(known_durable_, header->durable_sequence);
  return *header;
}

absl::Status LogRecovery::FindCandidates(const std::function<void(double)>& progress) {
  AlignedBuffer blocks(kHeadersAtOnce * kCacheBlockBytes);
  std::array<Io, kHeadersAtOnce> ios;
  const std::unique_ptr<IoQueue> queue = device_.MakeQueue(kHeadersAtOnce);
  for (uint32_t next = 0; next < geometry_.segment_count;) {
    const uint32_t begin = next;
    for (; next < geometry_.segment_count && next - begin < kHeadersAtOnce; ++next) {
      Io& io = ios[next - begin];
      io = {.kind = Io::Kind::kRead,
            .offset = uint64_t{geometry_.FirstBlock(next)} * kCacheBlockBytes,
            .data = blocks.data() + size_t{next - begin} * kCacheBlockBytes,
            .bytes = kCacheBlockBytes};
      queue->Submit(&io);
    }
    while (queue->in_flight() > 0) queue->Reap(queue->in_flight());
    for (uint32_t segment = begin; segment < next; ++segment) {
      const Io& io = ios[segment - begin];
      EBB_RETURN_IF_ERROR(Annotate(io.status, "cache log recovery"));
      const auto header =
          OurHeader(std::span(io.data, kCacheBlockBytes), geometry_.FirstBlock(segment));
      if (!header.has_value()) continue;
      candidates_.push_back(
          {.first_sequence = header->sequence, .epoch = header->epoch, .segment = segment});
    }
    if (progress) progress(0.2 * next / geometry_.segment_count);
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.first_sequence != b.first_sequence ? a.first_sequence < b.first_sequence
                                                : a.epoch > b.epoch;
  });
  return absl::OkStatus();
}

uint64_t LogRecovery::OldestEpoch() const {
  // What was not durable when the last session began was written by it, or is an orphan of an
  // earlier one: also where the log begins with it, and no group before it tells.
  const CacheLog::Tail& tail = log_.tail_;
  return expected_ >= tail.durable_below ? std::max(epoch_, tail.epoch) : epoch_;
}

const LogRecovery::Candidate* LogRecovery::NextSegment() const {
  // Of two with the same number the newer epoch comes first; the other is an orphan, torn off the
  // tail of an earlier session.
  const auto found = std::lower_bound(candidates_.begin(), candidates_.end(), expected_,
                                      [](const Candidate& candidate, uint64_t sequence) {
                                        return candidate.first_sequence < sequence;
                                      });
  if (found == candidates_.end() || found->first_sequence != expected_ ||
      found->epoch < OldestEpoch()) {
    return nullptr;
  }
  return &*found;
}

absl::StatusOr<std::optional<GroupHeader>> LogRecovery::ReadNext(uint32_t block,
                                                                 uint32_t segment_end) {
  const bool jump = last_group_blocks_ >= kJumpBlocks;
  EBB_ASSIGN_OR_RETURN(const auto bytes, reader_.At(block, jump ? block + 1 : segment_end));
  const auto header = OurHeader(bytes, block);
  if (!header.has_value() || header->sequence != expected_ || header->epoch < OldestEpoch() ||
      header->payload_blocks >= segment_end - block) {
    return std::optional<GroupHeader>();
  }
  // A session that found this group torn began again with its number, in a segment of its own.
  const Candidate* successor = NextSegment();
  if (successor != nullptr && successor->epoch > header->epoch) {
    return std::optional<GroupHeader>();
  }
  std::memcpy(header_.data(), bytes.data(), kCacheBlockBytes);
  return header;
}

WindowReader::Range LogRecovery::RangeAfter(uint64_t sequence) const {
  const auto found = std::upper_bound(candidates_.begin(), candidates_.end(), sequence,
                                      [](uint64_t wanted, const Candidate& candidate) {
                                        return wanted < candidate.first_sequence;
                                      });
  if (found == candidates_.end()) return {};
  const uint32_t first = geometry_.FirstBlock(found->segment);
  return {.first = first, .until = first + geometry_.segment_blocks};
}

absl::StatusOr<bool> LogRecovery::PayloadIsWhole(const GroupHeader& header, uint32_t segment_end) {
  const WindowReader::Range follow = RangeAfter(header.sequence);
  uint32_t block = header.header_block;
  for (uint32_t i = 0; i < header.entry_count; ++i) {
    const LogEntry entry = DecodeEntry(header_.span(), i);
    if (!HasDataBlock(entry.kind)) continue;
    ++block;
    if (entry.kind == EntryKind::kVoid) continue;
    // The groups behind it are not known to be durable either: the scan goes on.
    EBB_ASSIGN_OR_RETURN(const auto data, reader_.At(block, segment_end, follow));
    if (Crc32c(data) != entry.crc32c) return false;
  }
  return true;
}

void LogRecovery::Apply(const GroupHeader& header) {
  const bool dirty = header.sequence >= log_.tail_.dirty_from;
  uint32_t block = header.header_block;
  for (uint32_t i = 0; i < header.entry_count; ++i) {
    const LogEntry entry = DecodeEntry(header_.span(), i);
    const uint64_t order = LogOrder(header.sequence, i);
    switch (entry.kind) {
      case EntryKind::kData:
        ++block;
        // A lost block's version down here is the damaged one, or older.
        if (!dirty && log_.lost_.Contains(entry.block)) break;
        log_.map_.Put(entry.block, block, entry.crc32c, order, dirty);
        break;
      case EntryKind::kCopy:
        ++block;
        // A copy equals what the capacity tier had: what else the log has of the block is newer.
        if (log_.map_.Find(entry.block) != kNoCacheBlock) break;
        log_.map_.Put(entry.block, block, entry.crc32c, order, /*dirty=*/false);
        break;
      case EntryKind::kVoid:
        ++block;
        break;
      case EntryKind::kTrim:
      case EntryKind::kZeroes:
        log_.map_.PutRange(entry.block, entry.count, order, /*pending=*/dirty);
        break;
    }
  }
}

absl::Status LogRecovery::ReplaySegment(uint32_t segment) {
  const uint32_t segment_end = geometry_.FirstBlock(segment) + geometry_.segment_blocks;
  uint32_t block = geometry_.FirstBlock(segment);
  bool opened = false;
  while (block < segment_end) {
    EBB_ASSIGN_OR_RETURN(const auto header, ReadNext(block, segment_end));
    if (!header.has_value()) break;
    if (header->sequence > known_durable_) {
      EBB_ASSIGN_OR_RETURN(const bool whole, PayloadIsWhole(*header, segment_end));
      if (!whole) {
        // Torn, unless a later group says that this one was durable: then its blocks are damaged,
        // which their readers will be told, and the log goes on.
        EBB_RETURN_IF_ERROR(SearchSegmentForEvidence(segment, block + 1 + header->payload_blocks));
        if (header->sequence > known_durable_) break;
      }
    }
    if (!opened) log_.map_.OpenSegmentAt(segment, header->sequence);
    opened = true;
    log_.map_.SetLastSequence(header->sequence);
    Apply(*header);
    epoch_ = header->epoch;
    ++expected_;
    last_group_blocks_ = 1 + header->payload_blocks;
    block += last_group_blocks_;
  }
  end_block_ = block;
  end_segment_ = segment;
  if (!opened) {
    // The first group of the segment was torn: the chain ends before it.
    std::erase_if(candidates_, [&](const Candidate& c) { return c.segment == segment; });
  }
  return absl::OkStatus();
}

absl::Status LogRecovery::SearchSegmentForEvidence(uint32_t segment, uint32_t from_block) {
  const uint32_t segment_end = geometry_.FirstBlock(segment) + geometry_.segment_blocks;
  for (uint32_t block = from_block; block < segment_end; ++block) {
    EBB_ASSIGN_OR_RETURN(const auto bytes, reader_.At(block, segment_end));
    OurHeader(bytes, block);  // notes what it vouches for
  }
  return absl::OkStatus();
}

absl::Status LogRecovery::JudgeEnd() {
  // Headers of groups that followed are in the rest of the segment where the chain ended.
  if (end_segment_ != kNoSegment) {
    EBB_RETURN_IF_ERROR(SearchSegmentForEvidence(end_segment_, end_block_));
  }
  if (known_durable_ < expected_) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "the cache log is damaged: group {} is missing or unreadable at byte {} of {}, but groups up "
      "to {} were written durably; {} bytes before it are not destaged, and nothing was changed",
      expected_, uint64_t{end_block_} * kCacheBlockBytes, device_.Describe(), known_durable_,
      log_.map_.dirty_blocks() * kCacheBlockBytes));
}

}  // namespace ebb::storage
