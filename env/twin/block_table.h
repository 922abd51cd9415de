// BlockTable: all that the simulated node knows of each block, in one array by dense block number.
//
// A look-up in the read cache, the log and the capacity tier is one cache miss instead of three:
// most of what a simulated request costs.
#pragma once

#include <cstdint>
#include <vector>

namespace ebb::twin {

struct BlockState {
  uint32_t log = 0;       // place on the cache device; 0: not there
  uint32_t dram = 0;      // slot of the read cache + 1; 0: not there. Top bit: see kZeroed
  uint32_t capacity = 0;  // place in the capacity tier (capacity_model.h); 0: unmapped
  uint32_t content = 0;   // of what is stored there, when it may be shared; else 0
};
static_assert(sizeof(BlockState) == 16);

// Trimmed, and the capacity tier does not know it yet.
inline constexpr uint32_t kZeroed = uint32_t{1} << 31;

inline uint32_t SlotOf(const BlockState& state) { return state.dram & ~kZeroed; }
inline bool IsZeroed(const BlockState& state) { return (state.dram & kZeroed) != 0; }

using BlockTable = std::vector<BlockState>;

}  // namespace ebb::twin
