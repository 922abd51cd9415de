// LostBlocks names the volume blocks whose only copy on the cache device turned out to be damaged.
//
// Such a block must read as an error, not as its older version in the capacity tier, until it is
// written or trimmed again; and it must not keep its segment, and so the whole log, from moving on.
// So it is recorded in the metadata. Normally empty. The caller serialises, and does so for
// Record and Clear with a lock of its own that readers do not take.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class LostBlocks {
 public:
  explicit LostBlocks(MetadataStore* metadata) : metadata_(*metadata) {}

  absl::Status Load();
  bool empty() const { return blocks_.empty(); }
  bool Contains(uint64_t block) const { return blocks_.contains(block); }
  size_t size() const { return blocks_.size(); }
  // Those of [first, first + count).
  std::vector<uint64_t> In(uint64_t first, uint64_t count) const;

  // The durable half of a change, which takes as long as a commit does, ...
  absl::Status Commit(const std::vector<uint64_t>& blocks, bool lost);
  // ... and the half in memory.
  void Apply(const std::vector<uint64_t>& blocks, bool lost);

 private:
  MetadataStore& metadata_;
  std::set<uint64_t> blocks_;
};

}  // namespace ebb::storage
