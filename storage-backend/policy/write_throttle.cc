#include "storage-backend/policy/write_throttle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebb::storage {
namespace {

// Until the first batch is done nobody knows: a slow disk's rate. Too much costs room in the log,
// too little would be a stall.
constexpr double kDrainUnknownBytesPerS = 32 << 20;
// A drain that stands still lets a trickle in.
constexpr double kDrainFloorBytesPerS = 1 << 20;
constexpr double kDrainMemoryNs = 2e9;
// The curve's end: at and above it a tenth of the drain rate is admitted.
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
  const double hyperbola = (1 - position) / position;
  return std::max(drain_bytes_per_s, kDrainFloorBytesPerS) *
         (hyperbola >= 1 ? hyperbola : std::sqrt(hyperbola));
}

double WriteThrottle::DrainBytesPerS(const Input& input) {
  if (input.drain_bytes_per_s <= 0) return kDrainUnknownBytesPerS;
  if (drain_bytes_per_s_ == 0) {
    drain_bytes_per_s_ = input.drain_bytes_per_s;
  } else if (input.now_ns > drain_updated_ns_) {
    const double passed_ns = static_cast<double>(input.now_ns - drain_updated_ns_);
    const double weight = std::min(1.0, passed_ns / kDrainMemoryNs);
    drain_bytes_per_s_ += weight * (input.drain_bytes_per_s - drain_bytes_per_s_);
  }
  drain_updated_ns_ = std::max(drain_updated_ns_, input.now_ns);
  return drain_bytes_per_s_;
}

uint64_t WriteThrottle::Admit(const Input& input) {
  const double rate = AdmittedBytesPerSecond(
      input.fill, StartFill(input.softness, input.watermark_percent), DrainBytesPerS(input));
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
