#include "storage-backend/policy/write_throttle.h"

#include <algorithm>
#include <limits>

namespace ebb::storage {
namespace {

// A drain that was not measured yet, or stands still, still lets a trickle in.
constexpr double kDrainFloorBytesPerS = 1 << 20;
// The hyperbola's end: at and above it one hundredth of the drain rate is admitted.
constexpr double kPositionMax = 0.99;
// A single write is never held longer than this by the schedule; a full log holds it by itself.
constexpr double kDelayMaxNs = 1e9;

}  // namespace

double WriteThrottle::StartFill(int softness, int watermark_percent) {
  const double watermark = watermark_percent / 100.0;
  return std::max(0.95 - 0.0045 * softness, watermark + (1 - watermark) / 4);
}

double WriteThrottle::AdmittedBytesPerSecond(double fill, double start_fill,
                                             double drain_bytes_per_s) {
  const double position = std::min((fill - start_fill) / (1 - start_fill), kPositionMax);
  if (position <= 0) return std::numeric_limits<double>::infinity();
  return std::max(drain_bytes_per_s, kDrainFloorBytesPerS) * (1 - position) / position;
}

uint64_t WriteThrottle::Admit(const Input& input) {
  const double rate = AdmittedBytesPerSecond(
      input.fill, StartFill(input.softness, input.watermark_percent), input.drain_bytes_per_s);
  // Infinite below the start: the delay is then zero and the schedule follows the clock.
  const double delay_ns = std::min(static_cast<double>(input.bytes) / rate * 1e9, kDelayMaxNs);
  if (delay_ns < 1) {
    last_admission_ns_ = input.now_ns;
    return input.now_ns;
  }
  last_admission_ns_ = std::max(input.now_ns, last_admission_ns_ + static_cast<uint64_t>(delay_ns));
  return last_admission_ns_;
}

}  // namespace ebb::storage
