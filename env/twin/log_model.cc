#include "env/twin/log_model.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/units.h"

namespace ebb::twin {
namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr size_t kRangesAtOnce = 256;

}  // namespace

LogModel::Geometry LogModel::ChooseGeometry(uint64_t device_bytes, double divisor) {
  constexpr uint64_t kSegmentsMin = 8;
  // Below, the header blocks of groups that end with their segment would count too much.
  constexpr uint64_t kSegmentBlocksMin = 256;
  const auto whole = static_cast<uint64_t>(static_cast<double>(device_bytes) * divisor);
  const uint64_t whole_segment = std::clamp(whole / 64, 256 * kKiB, 16 * kMiB) / kBlockBytes;
  const uint64_t blocks = device_bytes / kBlockBytes;
  uint64_t segment_blocks = whole_segment;
  if (divisor > 1) {
    segment_blocks =
        std::max<uint64_t>(static_cast<uint64_t>(static_cast<double>(whole_segment) / divisor),
                           std::min(kSegmentBlocksMin, whole_segment));
  }
  segment_blocks = std::min(segment_blocks, (blocks - 2) / kSegmentsMin);
  return {.segment_blocks = static_cast<uint32_t>(segment_blocks),
          .segment_count = static_cast<uint32_t>((blocks - 2) / segment_blocks)};
}

LogModel::LogModel(const Geometry& geometry, BlockTable& table, storage::ServiceModel& device)
    : geometry_(geometry),
      table_(table),
      device_(device),
      contents_(1 + size_t{geometry.segment_count} * geometry.segment_blocks),
      live_(contents_.size() / 64 + 1),
      dirty_(contents_.size() / 64 + 1),
      segments_(geometry.segment_count),
      chain_(geometry.segment_count),
      free_(geometry.segment_count),
      write_limit_(geometry.segment_count) {
  for (uint32_t segment = 0; segment < geometry.segment_count; ++segment) free_.push_back(segment);
  SetReadShare(0);
}

uint32_t LogModel::NextSet(const Bits& bits, uint32_t from, uint32_t end) {
  for (uint32_t i = from; i < end;) {
    const uint64_t word = bits[i / 64] >> (i % 64);
    if (word != 0) return std::min(end, i + static_cast<uint32_t>(std::countr_zero(word)));
    i = (i / 64 + 1) * 64;
  }
  return end;
}

size_t LogModel::IdleGroup(uint64_t& now_ns) {
  for (;; ++groups_in_turn_) {
    size_t oldest = kGroups;
    for (size_t i = 0; i < groups_in_turn_; ++i) {
      if (groups_[i].written_ns > now_ns) continue;
      if (oldest == kGroups || groups_[i].sequence < groups_[oldest].sequence) oldest = i;
    }
    if (oldest != kGroups) return oldest;
    if (groups_in_turn_ == kGroups) break;
  }
  // Every buffer is on its way to the device.
  size_t first = 0;
  for (size_t i = 1; i < kGroups; ++i) {
    if (groups_[i].written_ns < groups_[first].written_ns) first = i;
  }
  now_ns = groups_[first].written_ns;
  return first;
}

void LogModel::OpenSegment() {
  const uint32_t segment = free_.front();
  free_.pop_front();
  segments_[segment] = {.first_sequence = next_sequence_, .last_sequence = next_sequence_};
  chain_.push_back(segment);
  active_ = true;
  active_used_ = 0;
  // What buffers remember of the segment's former content is no longer what is there.
  for (Group& group : groups_) {
    if (group.header_block != 0 && SegmentOf(group.header_block) == segment) {
      group.header_block = group.used = 0;
    }
  }
}

bool LogModel::OpenGroup(uint32_t slots_min, uint64_t& now_ns) {
  if (open_ != kNone) {
    if (groups_[open_].used + slots_min <= groups_[open_].capacity) return true;
    CloseGroup(now_ns);
  }
  const bool new_segment = !active_ || active_used_ + 1 + slots_min > geometry_.segment_blocks;
  if (new_segment && !CanOpenSegment()) return false;
  const size_t idle = IdleGroup(now_ns);
  if (new_segment) OpenSegment();
  groups_[idle] = {
      .sequence = next_sequence_++,
      .opened_ns = now_ns,
      .header_block = FirstBlock(chain_.back()) + active_used_,
      .used = 0,
      .capacity = std::min(storage::kGroupBlocksMax, geometry_.segment_blocks - active_used_ - 1)};
  open_ = static_cast<uint32_t>(idle);
  segments_[chain_.back()].last_sequence = groups_[idle].sequence;
  UpdateFill();
  return true;
}

void LogModel::CloseGroup(uint64_t now_ns) {
  Group& group = groups_[open_];
  open_ = kNone;
  closed_sequence_ = group.sequence;
  closed_end_block_ = group.header_block + 1 + group.used;
  active_used_ += 1 + group.used;
  const uint64_t bytes = (1 + uint64_t{group.used}) * kBlockBytes;
  written_bytes_ += bytes;
  group.written_ns = now_ns;
  if (!instant_) {
    group.written_ns = device_.CompletionNs(
        now_ns, {storage::Io::Kind::kWrite, uint64_t{group.header_block} * kBlockBytes, bytes});
  }
  last_written_ns_ = std::max(last_written_ns_, group.written_ns);
}

void LogModel::Kill(uint32_t cache_block, uint64_t sequence) {
  Clear(live_, cache_block);
  if (!Get(dirty_, cache_block)) return;
  Clear(dirty_, cache_block);
  Segment& segment = segments_[SegmentOf(cache_block)];
  --segment.dirty_blocks;
  segment.superseded_by = std::max(segment.superseded_by, sequence);
  --dirty_blocks_;
  ++coalesced_blocks_;
}

bool LogModel::Append(const Content& content, bool dirty, uint64_t& now_ns) {
  if (!OpenGroup(1, now_ns)) return false;
  Group& group = groups_[open_];
  BlockState& state = table_[content.block];
  if (!dirty && (state.log != 0 || IsZeroed(state))) return true;
  const uint32_t cache_block = group.header_block + 1 + group.used++;
  if (state.log != 0) Kill(state.log, group.sequence);
  state.log = cache_block;
  state.dram &= ~kZeroed;
  contents_[cache_block] = content;
  Set(live_, cache_block);
  if (dirty) {
    Set(dirty_, cache_block);
    ++segments_[chain_.back()].dirty_blocks;
    ++dirty_blocks_;
    ++appended_blocks_;
  }
  if (group.used == group.capacity) {
    CloseGroup(now_ns);
    ++full_groups_;
  }
  return true;
}

bool LogModel::Trim(uint32_t first, uint32_t count, uint64_t& now_ns) {
  if (!OpenGroup(0, now_ns)) return false;
  const uint64_t sequence = groups_[open_].sequence;
  for (uint32_t block = first; block < first + count; ++block) {
    BlockState& state = table_[block];
    if (state.log != 0) Kill(state.log, sequence);
    state.log = 0;
    state.dram |= kZeroed;
  }
  ranges_.push_back({first, count, sequence});
  return true;
}

bool LogModel::CanAppend() const {
  const bool room = open_ != kNone ? groups_[open_].used < groups_[open_].capacity : false;
  return room || (active_ && active_used_ + 2 <= geometry_.segment_blocks && open_ == kNone) ||
         CanOpenSegment();
}

bool LogModel::InBuffer(uint32_t cache_block) const {
  for (size_t i = 0; i < groups_in_turn_; ++i) {
    // One unsigned comparison for header_block < cache_block <= header_block + used.
    if (cache_block - groups_[i].header_block - 1 < groups_[i].used) return true;
  }
  return false;
}

uint64_t LogModel::CloseOld(uint64_t now_ns, uint64_t opened_before_ns) {
  if (open_ == kNone) return 0;
  const Group& group = groups_[open_];
  if (group.opened_ns > opened_before_ns) return group.opened_ns;
  CloseGroup(now_ns);
  return 0;
}

LogModel::FlushTarget LogModel::BeginFlush(uint64_t now_ns) {
  if (open_ != kNone) CloseGroup(now_ns);
  return {.sequence = closed_sequence_,
          .end_block = closed_end_block_,
          .written_ns = std::max(now_ns, last_written_ns_)};
}

void LogModel::EndFlush(const FlushTarget& target) {
  durable_sequence_ = target.sequence;
  durable_end_block_ = target.end_block;
}

bool LogModel::CollectDirty(size_t max_count, double keep_fill,
                            std::vector<DirtyBlock>& blocks) const {
  bool held_back = false;
  const auto keep = static_cast<size_t>(keep_fill * write_limit_);
  for (size_t i = clean_count_; i + keep < chain_.size() && blocks.size() < max_count; ++i) {
    const Segment& segment = segments_[chain_[i]];
    if (segment.dirty_blocks == 0) continue;
    const uint32_t first = FirstBlock(chain_[i]);
    uint32_t end = first + geometry_.segment_blocks;
    if (segment.last_sequence > durable_sequence_) {
      held_back = true;
      if (segment.first_sequence > durable_sequence_) break;
      end = durable_end_block_;
    }
    for (uint32_t at = NextSet(dirty_, first, end); at < end && blocks.size() < max_count;
         at = NextSet(dirty_, at + 1, end)) {
      blocks.push_back({.block = contents_[at].block, .cache_block = at});
    }
  }
  return held_back;
}

bool LogModel::MarkClean(const DirtyBlock& block) {
  // A segment that was released and filled again cannot hold the block in the same place: only
  // clean ones are released.
  if (table_[block.block].log != block.cache_block || !Get(dirty_, block.cache_block)) return false;
  Clear(dirty_, block.cache_block);
  --segments_[SegmentOf(block.cache_block)].dirty_blocks;
  --dirty_blocks_;
  return true;
}

std::vector<LogModel::Range> LogModel::TakeRanges() {
  size_t count = 0;
  while (count < ranges_.size() && count < kRangesAtOnce &&
         ranges_[count].sequence <= durable_sequence_) {
    ++count;
  }
  std::vector<Range> taken(ranges_.begin(), ranges_.begin() + static_cast<ptrdiff_t>(count));
  ranges_.erase(ranges_.begin(), ranges_.begin() + static_cast<ptrdiff_t>(count));
  return taken;
}

bool LogModel::IsClean(const Segment& segment, uint64_t durable_sequence) const {
  return segment.dirty_blocks == 0 && segment.superseded_by <= durable_sequence &&
         segment.last_sequence <= durable_sequence &&
         (ranges_.empty() || ranges_.front().sequence > segment.last_sequence);
}

bool LogModel::WantsFlush() const {
  if (unclean_count() < 2) return false;
  const Segment& oldest = segments_[chain_[clean_count_]];
  return !IsClean(oldest, durable_sequence_) && IsClean(oldest, UINT64_MAX);
}

void LogModel::ReleaseOldest() {
  const uint32_t segment = chain_.front();
  EBB_CHECK(clean_count_ > 0 && segments_[segment].dirty_blocks == 0);
  chain_.pop_front();
  --clean_count_;
  const uint32_t end = FirstBlock(segment) + geometry_.segment_blocks;
  for (uint32_t at = NextSet(live_, FirstBlock(segment), end); at < end;
       at = NextSet(live_, at + 1, end)) {
    Clear(live_, at);
    table_[contents_[at].block].log = 0;
  }
  free_.push_back(segment);
}

LogModel::Released LogModel::ReleaseClean() {
  Released released;
  const size_t before = clean_count_;
  const size_t end = !active_ || chain_.empty() ? chain_.size() : chain_.size() - 1;
  while (clean_count_ < end && IsClean(segments_[chain_[clean_count_]], durable_sequence_)) {
    ++clean_count_;
  }
  UpdateFill();
  released.advanced = clean_count_ > before;
  cleaned_bytes_ += (clean_count_ - before) * segment_bytes();
  while (clean_count_ > clean_segments_kept_) {
    ReleaseOldest();
    ++released.segments;
  }
  return released;
}

void LogModel::SetReadShare(double share) {
  constexpr uint32_t kWriteSegmentsMin = 3;
  const uint32_t total = geometry_.segment_count;
  const uint32_t kept =
      std::min(static_cast<uint32_t>(share * total), total - kWriteSegmentsMin - 1);
  clean_segments_kept_ = kept;
  write_limit_ = total - std::max(kept, 1U);
  UpdateFill();
}

void LogModel::UpdateFill() {
  double segments = static_cast<double>(unclean_count());
  if (active_ && unclean_count() > 0) {
    segments += static_cast<double>(active_used_) / geometry_.segment_blocks - 1;
  }
  fill_ = segments / write_limit_;
}

}  // namespace ebb::twin
