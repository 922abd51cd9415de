// StreamDetector tells sequential readers from random ones, several at a time.
//
// It is shown only reads that missed the read cache. A read continues a stream when it begins near
// where the stream left off: clients with several requests in flight arrive slightly out of order.
// Pure; the caller serialises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ebb::storage {

class StreamDetector {
 public:
  // Reads this far from the expected place still belong to the stream.
  static constexpr uint64_t kSlackBlocks = 32;
  static constexpr size_t kStreamCount = 16;

  struct Verdict {
    bool sequential = false;  // at least the third read of a stream
    uint64_t run_blocks = 0;  // length of the stream, this read included
    bool at_front = true;     // it reaches what was read or fetched ahead so far, or beyond
    uint32_t stream = 0;      // for Extend
  };

  // A miss of [first_block, first_block + count).
  Verdict Observe(uint64_t first_block, uint64_t count);
  // Blocks up to `end_block` (exclusive) were fetched ahead for `stream`: its next miss is
  // expected there.
  void Extend(uint32_t stream, uint64_t end_block);

 private:
  struct Stream {
    uint64_t next_block = 0;
    uint64_t run_blocks = 0;
    uint32_t reads = 0;
    uint64_t last_use = 0;  // observations_ at its last read: the oldest is replaced
  };
  std::array<Stream, kStreamCount> streams_{};
  uint64_t observations_ = 0;
};

}  // namespace ebb::storage
