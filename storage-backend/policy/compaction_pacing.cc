#include "storage-backend/policy/compaction_pacing.h"

#include "base/units.h"

namespace ebb::storage {

uint64_t CompactionIdleNs(int politeness) {
  const double share = politeness / 50.0;
  return static_cast<uint64_t>(2 * share * share * static_cast<double>(kNsPerS));
}

}  // namespace ebb::storage
