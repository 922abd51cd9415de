#include "experiments/landscape_bench/progress.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::landscape_bench {

Progress::Progress(double total)
    : total_(total),
      begin_ns_(RealClock().MonotonicNs()),
      terminal_(isatty(STDERR_FILENO) != 0),
      shown_ns_(begin_ns_) {}

void Progress::Advance(double done) {
  done_ += done;
  const uint64_t now_ns = RealClock().MonotonicNs();
  if (now_ns - shown_ns_ < (terminal_ ? kNsPerS : 60 * kNsPerS)) return;
  shown_ns_ = now_ns;
  const double share = std::min(done_ / total_, 1.0);
  const double left_ns = static_cast<double>(now_ns - begin_ns_) * (1 / share - 1);
  fmt::print(stderr, "{}[landscape bench] {:.0f} %, about {} left: {}{}",
             terminal_ ? "\r\033[K" : "", 100 * share,
             FormatDurationNs(static_cast<uint64_t>(left_ns)), step_, terminal_ ? "" : "\n");
  std::fflush(stderr);
}

void Progress::End() {
  const uint64_t took_ns = RealClock().MonotonicNs() - begin_ns_;
  fmt::print(stderr, "{}[landscape bench] took {}\n", terminal_ ? "\r\033[K" : "",
             FormatDurationNs(took_ns));
}

}  // namespace ebb::landscape_bench
