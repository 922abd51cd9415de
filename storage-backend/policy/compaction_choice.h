// Which capacity segments to empty next, and whether it is worth it: a pure function.
//
// Moving a segment that is `l` live costs l of writing for 1 - l of space. So with much free space
// only nearly dead segments are moved, and the limit rises as free space runs out. The capacity
// tier asks before each step; the twin asks the same function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::storage {

// A segment that may be emptied: written to its end and undamaged.
struct CompactionCandidate {
  uint32_t device = 0;
  uint32_t segment = 0;
  uint64_t live_bytes = 0;
};

struct CompactionInput {
  std::span<const CompactionCandidate> candidates;
  uint64_t segment_bytes = 0;
  uint64_t segments_free = 0;   // over all devices, without the reserve
  uint64_t segments_total = 0;  // likewise
  // Live bytes to move in one step; the emptiest segment is taken even when it alone has more.
  uint64_t step_bytes = 0;
  // Space is needed now: any segment below this many live bytes is worth moving. 0: not urgent.
  uint64_t urgent_live_bytes_max = 0;
};

// Segments below this live share are moved however much space is free.
inline constexpr double kCompactAlwaysLiveShare = 0.125;

// The live share below which moving a segment is worth its writing, when `free_share` of the
// segments are free: kCompactAlwaysLiveShare from one quarter free on, one half at a tenth, 0.85
// when none is.
double CompactionLiveShareLimit(double free_share);

// Positions in input.candidates, emptiest first (ties by device, then segment); empty when nothing
// is worth moving.
std::vector<size_t> ChooseCompaction(const CompactionInput& input);

}  // namespace ebb::storage
