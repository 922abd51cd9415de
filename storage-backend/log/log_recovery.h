// LogRecovery rebuilds a CacheLog's map from the device: the chain of groups from the durable tail
// on, in their order, until the first that is missing or torn.
//
// Headers only are read where groups are known to be durable; behind that point the data is
// checked too, because a torn write may have left a good header. Where the chain ends, evidence is
// sought that more was durable once: then it is damage and not a torn tail, and Open is refused.
// Eight reads of 1 MiB are in flight, memory is bounded by those and 24 bytes a segment. Nothing is
// written.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "storage-backend/log/cache_log.h"
#include "storage-backend/log/window_reader.h"

namespace ebb::storage {

class LogRecovery {
 public:
  explicit LogRecovery(CacheLog& log);
  absl::Status Run(const std::function<void(double)>& progress);

 private:
  // A segment whose first block is a group header of this log.
  struct Candidate {
    uint64_t first_sequence = 0;
    uint64_t epoch = 0;
    uint32_t segment = 0;
  };

  absl::Status FindCandidates(const std::function<void(double)>& progress);
  // No group `expected_` of an older session counts.
  uint64_t OldestEpoch() const;
  // The segment that begins with group `expected_`, or nullptr.
  const Candidate* NextSegment() const;
  absl::Status ReplaySegment(uint32_t segment);
  // The chain's next group if it is at `block`; nullopt when it is not there.
  absl::StatusOr<std::optional<GroupHeader>> ReadNext(uint32_t block, uint32_t segment_end);
  absl::StatusOr<bool> PayloadIsWhole(const GroupHeader& header, uint32_t segment_end);
  // The blocks of the segment that probably comes behind the one with group `sequence`.
  WindowReader::Range RangeAfter(uint64_t sequence) const;
  void Apply(const GroupHeader& header);
  // Decides what the end of the chain means.
  absl::Status JudgeEnd();
  absl::Status SearchSegmentForEvidence(uint32_t segment, uint32_t from_block);

  // The block's header when it is one of this log's groups and where it says it is.
  std::optional<GroupHeader> OurHeader(std::span<const std::byte> block, uint32_t cache_block);

  CacheLog& log_;
  Device& device_;
  const LogGeometry geometry_;
  WindowReader reader_;

  std::vector<Candidate> candidates_;  // by first_sequence
  AlignedBuffer header_;               // of the group being replayed
  uint64_t expected_ = 1;              // sequence of the next group
  uint64_t epoch_ = 0;                 // of the newest group replayed: it never falls
  uint64_t known_durable_ = 0;         // the highest any header seen so far vouches for
  uint32_t last_group_blocks_ = 0;     // size of the last group: how much is worth reading ahead
  uint32_t end_block_ = 0;             // where the chain ended
  uint32_t end_segment_ = kNoSegment;
};

}  // namespace ebb::storage
