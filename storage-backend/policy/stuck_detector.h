// StuckDetector notices that work which ought to be done is not getting done.
//
// It looks at a counter that only grows with progress. While there is work that ought to be done
// and the counter stands still for `limit_ns`, that is one fault, told once; the first progress, or
// the end of the work, clears it.
//
// Pure: time comes in, changes go out.
#pragma once

#include <cstdint>

namespace ebb::storage {

class StuckDetector {
 public:
  enum class Change : uint8_t { kNone, kStuck, kRecovered };

  explicit StuckDetector(uint64_t limit_ns) : limit_ns_(limit_ns) {}

  Change Observe(uint64_t now_ns, bool has_work, uint64_t progress);
  bool stuck() const { return stuck_; }
  // How long nothing has moved, as of the last look.
  uint64_t standing_ns() const { return standing_ns_; }

 private:
  const uint64_t limit_ns_;
  bool stuck_ = false;
  bool waiting_ = false;  // there was work at the last look
  uint64_t progress_seen_ = 0;
  uint64_t since_ns_ = 0;  // the counter has stood still, with work to do, since then
  uint64_t standing_ns_ = 0;
};

}  // namespace ebb::storage
