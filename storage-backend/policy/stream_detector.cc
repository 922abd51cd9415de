#include "storage-backend/policy/stream_detector.h"

#include <algorithm>

namespace ebb::storage {

StreamDetector::Verdict StreamDetector::Observe(uint64_t first_block, uint64_t count) {
  ++observations_;
  size_t oldest = 0;
  for (size_t i = 0; i < kStreamCount; ++i) {
    Stream& stream = streams_[i];
    // One unsigned comparison for next - slack <= first <= next + slack.
    if (stream.last_use != 0 &&
        first_block + kSlackBlocks - stream.next_block <= 2 * kSlackBlocks) {
      const bool at_front = first_block + count >= stream.next_block;
      stream.run_blocks += count;
      stream.next_block = std::max(stream.next_block, first_block + count);
      stream.last_use = observations_;
      ++stream.reads;
      return {.sequential = stream.reads >= 3,
              .run_blocks = stream.run_blocks,
              .at_front = at_front,
              .stream = static_cast<uint32_t>(i)};
    }
    if (stream.last_use < streams_[oldest].last_use) oldest = i;
  }
  streams_[oldest] = {.next_block = first_block + count,
                      .run_blocks = count,
                      .reads = 1,
                      .last_use = observations_};
  return {.sequential = false,
          .run_blocks = count,
          .at_front = true,
          .stream = static_cast<uint32_t>(oldest)};
}

void StreamDetector::Extend(uint32_t stream, uint64_t end_block) {
  Stream& entry = streams_[stream];
  if (end_block <= entry.next_block) return;
  // Blocks fetched ahead never miss, so they are counted here.
  entry.run_blocks += end_block - entry.next_block;
  entry.next_block = end_block;
}

}  // namespace ebb::storage
