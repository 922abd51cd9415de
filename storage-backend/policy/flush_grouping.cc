#include "storage-backend/policy/flush_grouping.h"

#include <algorithm>

#include "base/units.h"

namespace ebb::storage {

void FlushGrouping::OnGroupDone(size_t members, size_t queued) {
  recent_[next_] = std::max(members, queued);
  next_ = (next_ + 1) % recent_.size();
}

size_t FlushGrouping::Expected() const { return *std::max_element(recent_.begin(), recent_.end()); }

uint64_t FlushGrouping::WaitUntilNs(uint64_t began_ns, size_t members,
                                    uint64_t flush_group_us) const {
  if (members >= Expected()) return began_ns;
  return began_ns + flush_group_us * kNsPerUs;
}

}  // namespace ebb::storage
