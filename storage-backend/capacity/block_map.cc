#include "storage-backend/capacity/block_map.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace ebb::storage {

BlockMap::BlockMap(MetadataStore& metadata, uint64_t cache_bytes)
    : metadata_(metadata),
      shard_pages_max_(std::max<uint64_t>(cache_bytes / sizeof(Page) / kShards, 1)) {}

absl::StatusOr<MapPage> BlockMap::Load(uint64_t number) {
  EBB_ASSIGN_OR_RETURN(const auto value, metadata_.Get(Table::kMap, PageKey(number)));
  if (!value.has_value()) return MapPage{};
  return DecodePage(number, *value);
}

BlockMap::Page& BlockMap::Insert(Shard& shard, uint64_t number, const MapPage& entries) {
  const auto [found, is_new] = shard.pages.try_emplace(number);
  if (!is_new) return *found->second;
  found->second = std::make_unique<Page>();
  Page& page = *found->second;
  page.number = number;
  page.entries = entries;
  page.held = true;  // until the caller says otherwise: not to be evicted right now
  shard.clock.push_back(&page);
  Evict(shard);
  page.held = false;
  return page;
}

void BlockMap::Evict(Shard& shard) {
  // Twice round at most: the first time may only take the marks away.
  for (size_t steps = 2 * shard.clock.size(); steps > 0 && shard.clock.size() > shard_pages_max_;
       --steps) {
    if (shard.hand >= shard.clock.size()) shard.hand = 0;
    Page* const page = shard.clock[shard.hand];
    if (page->held || page->dirty_since != 0 || std::exchange(page->referenced, false)) {
      ++shard.hand;
      continue;
    }
    shard.clock[shard.hand] = shard.clock.back();
    shard.clock.pop_back();
    shard.pages.erase(page->number);
  }
}

absl::Status BlockMap::ReadPage(uint64_t number, size_t first, std::span<MapEntry> entries) {
  // An Apply between the look-up and the insertion may have made what was looked up old.
  const uint64_t version = version_.load();
  Shard& shard = ShardOf(number);
  {
    const std::lock_guard lock(shard.mutex);
    if (const auto found = shard.pages.find(number); found != shard.pages.end()) {
      found->second->referenced = true;
      std::copy_n(found->second->entries.begin() + static_cast<ptrdiff_t>(first), entries.size(),
                  entries.begin());
      return absl::OkStatus();
    }
  }
  EBB_ASSIGN_OR_RETURN(const MapPage loaded, Load(number));
  std::copy_n(loaded.begin() + static_cast<ptrdiff_t>(first), entries.size(), entries.begin());
  const std::lock_guard lock(shard.mutex);
  if (version_.load() == version) Insert(shard, number, loaded);
  return absl::OkStatus();
}

absl::Status BlockMap::Read(uint64_t first_block, std::span<MapEntry> entries) {
  while (!entries.empty()) {
    const size_t first = first_block % kPageBlocks;
    const size_t count = std::min<size_t>(entries.size(), kPageBlocks - first);
    EBB_RETURN_IF_ERROR(ReadPage(first_block / kPageBlocks, first, entries.first(count)));
    first_block += count;
    entries = entries.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status BlockMap::HoldPages(std::span<const uint64_t> blocks) {
  std::vector<uint64_t> missing;
  uint64_t last = UINT64_MAX;
  const auto hold = [&](Page& page) {
    page.referenced = true;
    if (page.held) return;
    page.held = true;
    held_.push_back(&page);
  };
  for (const uint64_t block : blocks) {
    const uint64_t number = block / kPageBlocks;
    if (number == last) continue;
    last = number;
    Shard& shard = ShardOf(number);
    const std::lock_guard lock(shard.mutex);
    if (const auto found = shard.pages.find(number); found != shard.pages.end()) {
      hold(*found->second);
    } else {
      missing.push_back(number);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  std::vector<std::string> keys;
  keys.reserve(missing.size());
  for (const uint64_t number : missing) keys.push_back(PageKey(number));
  EBB_ASSIGN_OR_RETURN(const auto values, metadata_.MultiGet(Table::kMap, keys));
  for (size_t i = 0; i < missing.size(); ++i) {
    MapPage entries{};
    if (values[i].has_value()) {
      EBB_ASSIGN_OR_RETURN(entries, DecodePage(missing[i], *values[i]));
    }
    Shard& shard = ShardOf(missing[i]);
    const std::lock_guard lock(shard.mutex);
    hold(Insert(shard, missing[i], entries));
  }
  return absl::OkStatus();
}

absl::Status BlockMap::Hold(std::span<const uint64_t> blocks, std::span<MapEntry> entries) {
  EBB_CHECK(blocks.size() == entries.size());
  EBB_RETURN_IF_ERROR(HoldPages(blocks));
  // Held pages are changed by nobody else, so they are read without their locks.
  const Page* page = nullptr;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t number = blocks[i] / kPageBlocks;
    if (page == nullptr || page->number != number) {
      Shard& shard = ShardOf(number);
      const std::lock_guard lock(shard.mutex);
      page = shard.pages.at(number).get();
    }
    entries[i] = page->entries[blocks[i] % kPageBlocks];
  }
  return absl::OkStatus();
}

void BlockMap::Apply(std::span<const MapChange> changes, uint64_t sequence) {
  version_.fetch_add(1);
  while (!changes.empty()) {
    const uint64_t number = changes.front().block / kPageBlocks;
    Shard& shard = ShardOf(number);
    const std::lock_guard lock(shard.mutex);
    Page& page = *shard.pages.at(number);
    EBB_CHECK(page.held);
    size_t count = 0;
    for (; count < changes.size() && changes[count].block / kPageBlocks == number; ++count) {
      page.entries[changes[count].block % kPageBlocks] = changes[count].entry;
    }
    changes = changes.subspan(count);
    if (page.dirty_since != 0) continue;
    page.dirty_since = sequence;
    dirty_.push_back(&page);
  }
  LetGo();
}

void BlockMap::LetGo() {
  for (Page* const page : held_) {
    const std::lock_guard lock(ShardOf(page->number).mutex);
    page->held = false;
  }
  held_.clear();
}

void BlockMap::WriteBack(uint64_t sequence, uint64_t dirty_bytes_max, MetadataBatch& batch) {
  EBB_CHECK(writing_back_ == 0);
  // The writer alone changes entries, so it needs no lock to read them.
  for (const Page* const page : dirty_) {
    const uint64_t left = (dirty_.size() - writing_back_) * sizeof(Page);
    if (page->dirty_since >= sequence && left <= dirty_bytes_max) break;
    std::string value = EncodePage(page->number, page->entries);
    if (value.empty()) {
      batch.Delete(Table::kMap, PageKey(page->number));
    } else {
      batch.PutMoved(Table::kMap, PageKey(page->number), std::move(value));
    }
    ++writing_back_;
  }
}

void BlockMap::WrittenBack() {
  for (; writing_back_ > 0; --writing_back_) {
    Page* const page = dirty_.front();
    const std::lock_guard lock(ShardOf(page->number).mutex);
    page->dirty_since = 0;
    dirty_.pop_front();
  }
}

absl::StatusOr<std::vector<uint64_t>> BlockMap::PagesFrom(uint64_t first_page, uint64_t end_page,
                                                          size_t max) {
  std::vector<uint64_t> pages;
  EBB_RETURN_IF_ERROR(metadata_.Scan(Table::kMap, PageKey(first_page), PageKey(end_page),
                                     [&](std::string_view key, std::string_view) {
                                       pages.push_back(ParsePageKey(key));
                                       return pages.size() < max;
                                     }));
  // Dirty pages may not be in the table yet. Those behind a full list are for the next call.
  const uint64_t last = pages.size() < max ? UINT64_MAX : pages.back();
  for (const Page* const page : dirty_) {
    if (page->number >= first_page && page->number < end_page && page->number <= last) {
      pages.push_back(page->number);
    }
  }
  std::sort(pages.begin(), pages.end());
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  return pages;
}

}  // namespace ebb::storage
