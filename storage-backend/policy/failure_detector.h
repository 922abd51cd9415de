// FailureDetector says when a device has begun to fail, and when it is over.
//
// One bad transfer is a bad sector or bad luck; kErrorsMin of them without a quiet time between are
// a device that fails. It works again when it did something and nothing failed for kQuietNs: a lost
// device that nobody asks stays lost. Pure state machine: the caller looks at the device's counters
// about every 100 ms.
#pragma once

#include <cstdint>

namespace ebb::storage {

class FailureDetector {
 public:
  enum class Change : uint8_t { kNone, kFailing, kRecovered };
  static constexpr uint64_t kErrorsMin = 3;
  static constexpr uint64_t kQuietNs = 30'000'000'000;

  // `transfers`: all so far; `errors`: those of them that failed.
  Change Observe(uint64_t now_ns, uint64_t transfers, uint64_t errors);
  bool failing() const { return failing_; }

 private:
  bool failing_ = false;
  uint64_t errors_before_ = 0;  // when the device last was well
  uint64_t errors_seen_ = 0;
  uint64_t error_ns_ = 0;       // when an error was seen last
  uint64_t good_at_error_ = 0;  // transfers that had succeeded then
};

}  // namespace ebb::storage
