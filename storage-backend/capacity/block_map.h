// BlockMap: block of the volume -> MapEntry, as pages of kPageBlocks entries, a bounded part of
// them in memory.
//
// The one writer holds the pages of the blocks it is about to change, commits the change as a
// record of the journal, and only then Applies it: so readers never see what a crash could undo. A
// changed page is dirty and stays in memory until it is written back, which is a part of a later
// commit; pages are written back in the order in which they became dirty, so that the journal's
// oldest records can go (docs/formats.md has why replay is right).
//
// Threads: Read from any; all else from one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage-backend/capacity/records.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class BlockMap {
 public:
  static constexpr uint64_t kNothingDirty = UINT64_MAX;

  // Clean pages beyond about `cache_bytes` are forgotten; dirty and held ones are not.
  BlockMap(MetadataStore& metadata, uint64_t cache_bytes);

  // The entries of [first_block, first_block + entries.size()).
  absl::Status Read(uint64_t first_block, std::span<MapEntry> entries);

  // Loads the pages of `blocks` (ascending) and keeps them in memory until Apply or LetGo; the
  // present entries go to `entries`, one for each block.
  absl::Status Hold(std::span<const uint64_t> blocks, std::span<MapEntry> entries);
  // `changes`, whose pages are held, are durable in the journal's record `sequence`.
  void Apply(std::span<const MapChange> changes, uint64_t sequence);
  void LetGo();

  // The oldest record of the journal that some page depends on, not counting those that WriteBack
  // has added to a batch.
  uint64_t oldest_dirty() const {
    return writing_back_ == dirty_.size() ? kNothingDirty : dirty_[writing_back_]->dirty_since;
  }
  // Adds the pages that are dirty since a record below `sequence`, and as many more of the oldest
  // as leave at most `dirty_bytes_max`, to `batch`. They are clean once that is committed.
  void WriteBack(uint64_t sequence, uint64_t dirty_bytes_max, MetadataBatch& batch);
  void WrittenBack();

  // Pages from `first_page` on, below `end_page`, that may have mapped blocks; at most `max` of
  // them, ascending.
  absl::StatusOr<std::vector<uint64_t>> PagesFrom(uint64_t first_page, uint64_t end_page,
                                                  size_t max);

 private:
  struct Page {
    uint64_t number = 0;
    MapPage entries;
    uint64_t dirty_since = 0;  // record of the journal; 0: clean
    bool held = false;
    bool referenced = false;  // since the clock's hand passed last
  };
  struct Shard {
    std::mutex mutex;
    absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> pages;
    std::vector<Page*> clock;
    size_t hand = 0;
  };
  static constexpr size_t kShards = 16;

  Shard& ShardOf(uint64_t page) { return shards_[(page * 0x9e3779b97f4a7c15) >> 60]; }
  absl::StatusOr<MapPage> Load(uint64_t number);
  // Under the shard's lock. The page that is there wins over `entries`.
  Page& Insert(Shard& shard, uint64_t number, const MapPage& entries);
  void Evict(Shard& shard);
  absl::Status ReadPage(uint64_t number, size_t first, std::span<MapEntry> entries);
  absl::Status HoldPages(std::span<const uint64_t> blocks);

  MetadataStore& metadata_;
  const size_t shard_pages_max_;
  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> version_{1};  // of all entries: one more with each Apply

  // The writer's. Held pages ascend.
  std::vector<Page*> held_;
  std::deque<Page*> dirty_;  // by dirty_since
  size_t writing_back_ = 0;  // at the front of dirty_
};

}  // namespace ebb::storage
