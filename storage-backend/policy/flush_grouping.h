// FlushGrouping decides how long the leader of a group of flushes waits for company.
//
// One device flush answers every flush that asked before it began, so waiting a little can save
// many. It never pays when nobody else flushes: the leader waits only while fewer have come than
// lately came together. Pure; the caller serialises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ebb::storage {

class FlushGrouping {
 public:
  // A device flush answered `members` flushes, and `queued` more came while it ran.
  void OnGroupDone(size_t members, size_t queued);
  // Until when the leader, who has `members` together (itself included), waits: not after now_ns
  // means begin the device flush now.
  uint64_t WaitUntilNs(uint64_t began_ns, size_t members, uint64_t flush_group_us) const;

 private:
  size_t Expected() const;

  std::array<size_t, 8> recent_{};  // sizes of the last groups, those that queued included
  size_t next_ = 0;
};

}  // namespace ebb::storage
