// FillRate tells how fast clients fill the write space, smoothed over about a second.
//
// Pure: time comes in; the background asks before each decision of DestagePacing.
#pragma once

#include <cstdint>

namespace ebb::storage {

class FillRate {
 public:
  // Share of the write space a second, by the blocks of 4 KiB that clients appended so far.
  double Update(uint64_t now_ns, uint64_t appended_blocks, uint64_t write_space_bytes);

 private:
  uint64_t last_ns_ = 0;
  uint64_t last_blocks_ = 0;
  double rate_ = 0;
};

}  // namespace ebb::storage
