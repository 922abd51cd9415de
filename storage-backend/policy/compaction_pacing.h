// CompactionPacing: how long clients must have been idle before compaction runs for its own sake.
//
// Compaction that a write needs for room does not ask. Pure.
#pragma once

#include <cstdint>

namespace ebb::storage {

// Politeness 0: at once, between destage batches; 50: 2 s; 100: 8 s.
uint64_t CompactionIdleNs(int politeness);

}  // namespace ebb::storage
