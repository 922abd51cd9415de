// WriteThrottle slows writes down before the cache log is full, so that the accepted rate meets the
// drain rate on a curve and never hits a wall.
//
// With x the position between the fill where slowing starts and full, writes are admitted at
// drain_rate * r(x). The first half is ZFS's hyperbola, r = (1 - x) / x, down to the drain rate;
// the second is its square root, so that a drain that falters, or a batch that frees its room late,
// is met from what is left of the log and not by the clients at once. Where more than the drain
// rate is offered, the fill settles at the x whose admitted rate equals what really drains,
// whatever the error of the estimate. The estimate is smoothed over seconds: a batch takes a moment
// or ten of them. All writers share one schedule, so that the sum is limited and not each of them.
// Pure: the caller sleeps; the caller serialises.
#pragma once

#include <cstdint>

namespace ebb::storage {

class WriteThrottle {
 public:
  struct Input {
    uint64_t now_ns = 0;
    uint64_t bytes = 0;            // of this write
    double fill = 0;               // share of the write space in use
    double drain_bytes_per_s = 0;  // lately; 0 = not known yet
    int softness = 0;              // knob throttle_softness, 0 to 100
    int watermark_percent = 0;     // knob destage_watermark: nothing drains below it
  };

  // When this write may go on (monotonic ns); not after now_ns: at once. It is counted as admitted.
  uint64_t Admit(const Input& input);

  // The fill at which slowing starts: 0.95 at softness 0, 0.5 at 100, but never before destage had
  // a quarter of the room above its watermark to get going.
  static double StartFill(int softness, int watermark_percent);
  // Bytes a second that may enter at this fill, with slowing from `start_fill` on; infinity below.
  static double AdmittedBytesPerSecond(double fill, double start_fill, double drain_bytes_per_s);

 private:
  // The estimate of `input`, smoothed.
  double DrainBytesPerS(const Input& input);

  uint64_t last_admission_ns_ = 0;
  double drain_bytes_per_s_ = 0;  // 0: not known yet
  uint64_t drain_updated_ns_ = 0;
};

}  // namespace ebb::storage
