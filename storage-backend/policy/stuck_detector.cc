#include "storage-backend/policy/stuck_detector.h"

namespace ebb::storage {

StuckDetector::Change StuckDetector::Observe(uint64_t now_ns, bool has_work, uint64_t progress) {
  const bool moves = !has_work || !waiting_ || progress != progress_seen_;
  waiting_ = has_work;
  progress_seen_ = progress;
  if (moves) since_ns_ = now_ns;
  standing_ns_ = now_ns - since_ns_;
  if (moves && stuck_) {
    stuck_ = false;
    return Change::kRecovered;
  }
  if (stuck_ || !has_work || standing_ns_ < limit_ns_) return Change::kNone;
  stuck_ = true;
  return Change::kStuck;
}

}  // namespace ebb::storage
