#include "storage-backend/capacity/map_journal.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace ebb::storage {

absl::Status MapJournal::Replay(
    MetadataStore& metadata,
    const std::function<absl::Status(uint64_t sequence, const JournalRecord& record)>& visit) {
  EBB_CHECK(bytes_.empty());
  for (uint64_t sequence = first_; sequence < next_; ++sequence) {
    EBB_ASSIGN_OR_RETURN(const auto value, metadata.Get(Table::kJournal, JournalKey(sequence)));
    if (!value.has_value()) {
      return absl::DataLossError(absl::StrCat("metadata: commit ", sequence,
                                              " is missing in the journal, which should have ",
                                              first_, " to ", next_ - 1));
    }
    EBB_ASSIGN_OR_RETURN(const JournalRecord record, DecodeJournal(sequence, *value));
    EBB_RETURN_IF_ERROR(visit(sequence, record));
    bytes_.push_back(value->size());
    bytes_sum_ += value->size();
  }
  return absl::OkStatus();
}

uint64_t MapJournal::WriteBackBelow(uint64_t new_bytes, uint64_t bytes_max) const {
  uint64_t first = first_;
  uint64_t kept = bytes_sum_ + new_bytes;
  for (auto bytes = bytes_.begin(); bytes != bytes_.end() && kept > bytes_max; ++bytes) {
    kept -= *bytes;
    ++first;
  }
  return first;
}

void MapJournal::DeleteBelow(uint64_t first, MetadataBatch& batch) const {
  for (uint64_t sequence = first_; sequence < first; ++sequence) {
    batch.Delete(Table::kJournal, JournalKey(sequence));
  }
}

void MapJournal::Committed(uint64_t first, uint64_t bytes) {
  ++next_;
  bytes_.push_back(bytes);
  bytes_sum_ += bytes;
  EBB_CHECK(first >= first_ && first <= next_);
  for (; first_ < first; ++first_) {
    bytes_sum_ -= bytes_.front();
    bytes_.pop_front();
  }
}

}  // namespace ebb::storage
