// MapJournal keeps count of the journal's records that are still needed: [first, next).
//
// A record is needed until every page and segment record that it changed is written back. Keeping
// them below a number of bytes bounds both the space and the time to replay them. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "storage-backend/capacity/records.h"
#include "storage-backend/metadata/metadata_store.h"

namespace ebb::storage {

class MapJournal {
 public:
  MapJournal(uint64_t first, uint64_t next) : first_(first), next_(next) {}

  // At open: visits every needed record, oldest first. DataLoss when one is missing or damaged.
  absl::Status Replay(
      MetadataStore& metadata,
      const std::function<absl::Status(uint64_t sequence, const JournalRecord& record)>& visit);

  // The number of the next record.
  uint64_t next() const { return next_; }
  // What has to be written back so that the records kept, with one more of `new_bytes`, have at
  // most `bytes_max`: everything dirty since a record below this.
  uint64_t WriteBackBelow(uint64_t new_bytes, uint64_t bytes_max) const;
  // Adds the deletion of the records below `first` to `batch`.
  void DeleteBelow(uint64_t first, MetadataBatch& batch) const;
  // Record next() was committed, with `bytes`, and those below `first` were deleted.
  void Committed(uint64_t first, uint64_t bytes);

 private:
  uint64_t first_;
  uint64_t next_;
  std::deque<uint64_t> bytes_;  // of each record kept
  uint64_t bytes_sum_ = 0;
};

}  // namespace ebb::storage
