// StreamSampler keeps a sample of the front-end stream for the workload descriptor and the twin.
//
// Below 8,000 requests a second every request is kept; above, the share 1/8, then 1/64 of the
// volume: regions of 256 KiB chosen by a hash of their number, so that reuse, overwrites and
// (inside of a region) sequential runs stay visible (spatial sampling: Waldspurger 2015). The
// samples are nested: the regions of 1/64 are among those of 1/8. Record is cheap and thread-safe.
// Looking at a write's content costs about 6 us, so above 1,000 requests a second that is done for
// a thinner sample only: an eighth of the regions sampled.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "storage-backend/volume/volume.h"

namespace ebb::storage {

class StreamSampler {
 public:
  static constexpr uint64_t kRegionBytes = uint64_t{256} * 1024;

  // Keeps the last `records_max` sampled records.
  explicit StreamSampler(size_t records_max = 65'536);

  // Whether requests that begin in `region` (of kRegionBytes) belong to the sample of 2^-shift.
  static bool InSample(uint64_t region, uint32_t shift);

  void Record(const StreamRecord& record);
  // Whether the content of this write belongs into its record.
  bool WantsContent(const StreamRecord& record) const;

  struct Slice {
    std::vector<StreamRecord> records;
    uint64_t next = 0;       // the `after` of the next call
    uint64_t dropped = 0;    // sampled records after `after` that are gone from the ring
    double sample_rate = 1;  // of these records: a slice ends where the rate changed
  };
  // Sampled records with a sequence number from `after` on (0 = the oldest kept), `max` at most.
  Slice Get(uint64_t after, size_t max) const;

 private:
  struct Entry {
    StreamRecord record;
    uint32_t shift = 0;
  };

  bool Sampled(const StreamRecord& record, uint32_t shift);
  // At the end of a period: to the rate that was seen in it.
  void AdaptRate(uint64_t now_ns);
  // In a period: at once when it has `seen` more than the rate allows, or the first second of every
  // burst would be paid for in full.
  void ThinOut(uint64_t seen);

  std::atomic<uint32_t> shift_{0};          // the sample rate is 2^-shift
  std::atomic<uint32_t> content_shift_{0};  // likewise, of the content of writes
  std::atomic<uint64_t> seen_{0};           // requests since the period began
  std::atomic<uint64_t> flushes_{0};
  std::atomic<uint64_t> period_began_ns_{0};

  mutable std::mutex mutex_;
  std::vector<Entry> ring_;     // entry of sequence number s at s % size
  uint64_t next_sequence_ = 1;  // 0 asks for the oldest: who has heard nothing yet loses nothing
};

}  // namespace ebb::storage
