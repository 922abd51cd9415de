#include "storage-backend/policy/failure_detector.h"

namespace ebb::storage {

FailureDetector::Change FailureDetector::Observe(uint64_t now_ns, uint64_t transfers,
                                                 uint64_t errors) {
  const uint64_t good = transfers - errors;
  if (errors != errors_seen_) {
    errors_seen_ = errors;
    error_ns_ = now_ns;
    good_at_error_ = good;
    if (failing_ || errors - errors_before_ < kErrorsMin) return Change::kNone;
    failing_ = true;
    return Change::kFailing;
  }
  if (errors == errors_before_ || now_ns - error_ns_ < kQuietNs || good == good_at_error_) {
    return Change::kNone;
  }
  errors_before_ = errors;
  if (!failing_) return Change::kNone;
  failing_ = false;
  return Change::kRecovered;
}

}  // namespace ebb::storage
