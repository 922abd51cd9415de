#include "storage-backend/log/log_map.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ebb::storage {

uint32_t LogMap::Bits::NextSet(uint32_t from, uint32_t end) const {
  for (uint32_t i = from; i < end;) {
    const uint64_t word = words_[i / 64] >> (i % 64);
    if (word != 0) return std::min(end, i + static_cast<uint32_t>(std::countr_zero(word)));
    i = (i / 64 + 1) * 64;
  }
  return end;
}

LogMap::LogMap(const LogGeometry& geometry)
    : geometry_(geometry),
      index_(geometry.end_block()),
      info_memory_(size_t{geometry.end_block()} * sizeof(BlockInfo)),
      live_(geometry.end_block()),
      dirty_(geometry.end_block()),
      generations_(kGenerationSlots),
      segments_(geometry.segment_count),
      pins_(std::make_unique<std::atomic<uint32_t>[]>(geometry.segment_count)),
      write_segment_limit_(geometry.segment_count) {
  for (uint32_t segment = 0; segment < geometry.segment_count; ++segment) {
    free_.push_back(segment);
  }
}

bool LogMap::IsNewer(uint32_t a, uint32_t b) const {
  const uint32_t segment_a = geometry_.SegmentOf(a);
  const uint32_t segment_b = geometry_.SegmentOf(b);
  if (segment_a == segment_b) return a > b;
  return segments_[segment_a].first_sequence > segments_[segment_b].first_sequence;
}

void LogMap::Kill(uint32_t cache_block, uint64_t sequence) {
  live_.Clear(cache_block);
  if (!dirty_.Get(cache_block)) return;
  dirty_.Clear(cache_block);
  Segment& segment = segments_[geometry_.SegmentOf(cache_block)];
  --segment.dirty_blocks;
  segment.superseded_by = std::max(segment.superseded_by, sequence);
  --dirty_blocks_;
  ++coalesced_blocks_;
}

void LogMap::SupersedeRange(uint64_t range_order, uint64_t sequence) {
  // The chain ascends by first sequence; the range is in the last segment that begins at or below.
  const auto after = std::upper_bound(chain_.begin(), chain_.end(), range_order >> 8,
                                      [this](uint64_t wanted, uint32_t segment) {
                                        return wanted < segments_[segment].first_sequence;
                                      });
  if (after == chain_.begin()) return;
  Segment& segment = segments_[*std::prev(after)];
  segment.superseded_by = std::max(segment.superseded_by, sequence);
}

bool LogMap::Put(uint64_t block, uint32_t cache_block, uint32_t crc32c, uint64_t order,
                 bool dirty) {
  const auto key = static_cast<uint32_t>(block);
  if (const uint64_t range_order = overlay_.Find(block); range_order != 0) {
    if (range_order > order) return false;
    SupersedeRange(range_order, order >> 8);
    overlay_.Cut(block, block + 1);
  }
  const uint32_t before = index_.Put(key, cache_block);
  if (before != kNoCacheBlock) {
    if (IsNewer(before, cache_block)) {
      index_.Put(key, before);
      return false;
    }
    Kill(before, order >> 8);
  }
  infos()[cache_block] = {.block = key, .crc32c = crc32c};
  live_.Set(cache_block);
  if (dirty) {
    ++generations_[GenerationSlot(block)];
    dirty_.Set(cache_block);
    ++segments_[geometry_.SegmentOf(cache_block)].dirty_blocks;
    ++dirty_blocks_;
  }
  return true;
}

void LogMap::EraseFromIndex(uint64_t first, uint64_t count, uint64_t order) {
  const auto erase = [&](uint32_t key, uint32_t cache_block) {
    index_.Erase(key);
    Kill(cache_block, order >> 8);
  };
  if (count <= index_.size()) {
    for (uint64_t block = first; block < first + count; ++block) {
      const uint32_t cache_block = Find(block);
      if (cache_block != kNoCacheBlock) erase(static_cast<uint32_t>(block), cache_block);
    }
    return;
  }
  const uint32_t end = geometry_.end_block();
  for (uint32_t at = live_.NextSet(1, end); at < end; at = live_.NextSet(at + 1, end)) {
    const uint32_t block = infos()[at].block;
    if (block >= first && block - first < count) erase(block, at);
  }
}

void LogMap::PutRange(uint64_t first, uint64_t count, uint64_t order, bool pending) {
  EraseFromIndex(first, count, order);
  if (pending) {
    overlay_.ForEachIn(first, first + count,
                       [&](uint64_t old_order) { SupersedeRange(old_order, order >> 8); });
    overlay_.Add({.first = first, .end = first + count, .order = order});
  }
  const uint64_t slots = std::min<uint64_t>(count, kGenerationSlots);
  for (uint64_t i = 0; i < slots; ++i) ++generations_[GenerationSlot(first + i)];
}

void LogMap::MarkClean(const DirtyBlock& block) {
  if (Find(block.block) != block.cache_block || !dirty_.Get(block.cache_block)) return;
  dirty_.Clear(block.cache_block);
  --segments_[geometry_.SegmentOf(block.cache_block)].dirty_blocks;
  --dirty_blocks_;
}

void LogMap::Forget(const DirtyBlock& block) {
  if (Find(block.block) != block.cache_block) return;
  MarkClean(block);
  live_.Clear(block.cache_block);
  index_.Erase(static_cast<uint32_t>(block.block));
  ++generations_[GenerationSlot(block.block)];
}

bool LogMap::CanOpenSegment() const {
  return !free_.empty() && unclean_count() < write_segment_limit_;
}

uint32_t LogMap::OpenSegment(uint64_t sequence) {
  EBB_CHECK(!free_.empty());
  const uint32_t segment = free_.front();
  free_.pop_front();
  segments_[segment] = {.first_sequence = sequence, .last_sequence = sequence, .free = false};
  chain_.push_back(segment);
  return segment;
}

void LogMap::OpenSegmentAt(uint32_t segment, uint64_t sequence) {
  const auto found = std::find(free_.begin(), free_.end(), segment);
  EBB_CHECK(found != free_.end());
  free_.erase(found);
  free_.push_front(segment);
  OpenSegment(sequence);
}

bool LogMap::IsClean(const Segment& segment, uint64_t durable_sequence) const {
  return segment.dirty_blocks == 0 && segment.superseded_by <= durable_sequence &&
         segment.last_sequence <= durable_sequence &&
         overlay_.oldest_order() >> 8 > segment.last_sequence;
}

void LogMap::AdvanceClean(uint64_t durable_sequence, bool sealed) {
  const size_t end = sealed || chain_.empty() ? chain_.size() : chain_.size() - 1;
  while (clean_count_ < end && IsClean(segments_[chain_[clean_count_]], durable_sequence)) {
    ++clean_count_;
  }
}

void LogMap::EndReplay(uint64_t dirty_from) {
  while (clean_count_ < chain_.size() &&
         segments_[chain_[clean_count_]].last_sequence < dirty_from) {
    ++clean_count_;
  }
  coalesced_blocks_ = 0;
}

void LogMap::ReleaseOldest() {
  EBB_CHECK(clean_count_ > 0);
  const uint32_t segment = chain_.front();
  EBB_CHECK(segments_[segment].dirty_blocks == 0);
  chain_.pop_front();
  --clean_count_;
  const uint32_t end = geometry_.FirstBlock(segment) + geometry_.segment_blocks;
  for (uint32_t at = live_.NextSet(geometry_.FirstBlock(segment), end); at < end;
       at = live_.NextSet(at + 1, end)) {
    live_.Clear(at);
    EBB_CHECK(index_.Erase(infos()[at].block));
  }
  segments_[segment].free = true;
  limbo_.push_back(segment);
  CollectUnpinned();
}

void LogMap::CollectUnpinned() {
  std::erase_if(limbo_, [&](uint32_t segment) {
    if (pins_[segment].load(std::memory_order_acquire) != 0) return false;
    free_.push_back(segment);
    return true;
  });
}

LogMap::Collected LogMap::CollectDirty(size_t max_count, size_t keep_segments,
                                       uint64_t durable_sequence,
                                       uint32_t durable_end_block) const {
  Collected collected;
  std::vector<DirtyBlock>& found = collected.blocks;
  for (size_t i = clean_count_; i + keep_segments < chain_.size() && found.size() < max_count;
       ++i) {
    const Segment& segment = segments_[chain_[i]];
    if (segment.dirty_blocks == 0) continue;
    const uint32_t first = geometry_.FirstBlock(chain_[i]);
    uint32_t end = first + geometry_.segment_blocks;
    if (segment.last_sequence > durable_sequence) {
      collected.held_back = true;
      if (segment.first_sequence > durable_sequence) break;
      end = durable_end_block;
    }
    for (uint32_t at = dirty_.NextSet(first, end); at < end && found.size() < max_count;
         at = dirty_.NextSet(at + 1, end)) {
      found.push_back(
          {.block = infos()[at].block, .cache_block = at, .crc32c = infos()[at].crc32c});
    }
  }
  return collected;
}

bool LogMap::OldestWaitsForFlush(uint64_t durable_sequence) const {
  if (unclean_count() < 2) return false;
  const Segment& oldest = segments_[chain_[clean_count_]];
  return !IsClean(oldest, durable_sequence) && IsClean(oldest, ~uint64_t{0});
}

size_t LogMap::memory_bytes() const {
  return index_.memory_bytes() + info_memory_.size() + live_.memory_bytes() +
         dirty_.memory_bytes() + segments_.size() * (sizeof(Segment) + sizeof(uint32_t));
}

}  // namespace ebb::storage
